# SPDX-License-Identifier: Apache-2.0
"""The configuration from outside: where a value came from, and exactly where one is wrong."""


import pytest

from harness.program import ROOT


FILE = """\
databases:
  - name: main
    url: sqlite:x.db
watches:
  - name: pages
    table: pages
    key: id
    running: state = 'Processing'
    alive_at: updated_at
    stuck_after: ${STUCK_MINUTES:-60}m
    requeue: state = 'Queued', error = :reason
"""


def check(defib, text=FILE, **options):
    return defib("config", "check", config=text, **options)


def shown(defib, *args, text=FILE, **options):
    ran = defib("config", "show", "--json", *args, config=text, **options)
    assert ran.code == 0, ran.err
    return {row["path"]: (row["value"], row["origin"]) for row in ran.json}


def test_a_good_file_is_ok_without_touching_a_database(defib):
    ran = check(defib)
    assert (ran.code, ran.out, ran.err) == (0, "ok: 1 database, 1 watch\n", "")
    assert not (defib.dir / "x.db").exists()


def test_the_reference_in_docs_is_what_the_program_prints(defib):
    ran = defib("config", "docs")
    assert ran.code == 0
    assert (ROOT / "docs" / "configuration.md").read_text() == ran.out, (
        "run: scripts/references")


def test_the_members_of_records_in_docs_are_what_the_program_prints(defib):
    ran = defib("config", "records")
    assert ran.code == 0
    assert (ROOT / "docs" / "records.md").read_text() == ran.out, (
        "run: scripts/references")


def test_the_schemas_of_records_are_what_the_program_prints(defib):
    ran = defib("config", "schemas")
    described = (ROOT / "docs" / "openapi.yaml").read_text()
    assert ran.code == 0 and described.endswith("prints.\n" + ran.out), (
        "run: scripts/references")


def test_show_tells_a_value_of_the_file_by_its_place(defib):
    place = f"{defib.dir}/defib.yaml:9:15"
    assert shown(defib)["watches.pages.alive_at"] == ("updated_at", place)


def test_show_tells_a_default(defib):
    assert shown(defib)["watches.pages.every"] == ("60s", "default")


def test_show_tells_a_value_of_the_environment_by_its_name(defib):
    value, origin = shown(defib, env={"STUCK_MINUTES": "5"})["watches.pages.stuck_after"]
    assert value == "5m"
    assert origin.endswith("defib.yaml:10:18 (from STUCK_MINUTES)")


def test_show_tells_what_an_unset_variable_falls_back_to(defib):
    assert shown(defib)["watches.pages.stuck_after"][0] == "60m"


def test_show_tells_a_value_of_the_command_line(defib):
    assert shown(defib, db="sqlite:y.db")["databases.main.url"] == ("sqlite:y.db", "command line")


def test_show_never_shows_a_password(defib):
    ran = defib("config", "show", config=FILE, db="postgres://u:s3cret@h/d")
    assert ran.code == 0 and "postgres://u:***@h/d" in ran.out
    assert "s3cret" not in ran.out + ran.err


MISTAKES = [
    ("key", "    running:", "    runing:", '8:5: unknown key "runing" in watches.pages; '
     'did you mean "running"?'),
    ("top key", "watches:", "watchs:",
     '4:1: unknown key "watchs" in the file; did you mean "watches"?'),
    ("parameter", ":reason", ":resaon", "11:14: watch pages: requeue: unknown parameter :resaon; "
     "did you mean :reason?"),
    ("duration", "60}m", "60}parsecs", "10:18: watches.pages.stuck_after expects a duration"),
    ("choice", "alive_at: updated_at", "alive_at: updated_at\n    time_type: epoc", "10:16: "),
    ("comment in SQL", "updated_at\n", "updated_at # the time\n", "9:15: watches.pages.alive_at: "
     "YAML takes the text after ' #' as a comment"),
    ("environment in SQL", "'Processing'", "'${STUCK_MINUTES:-1}'", "8:14: watches.pages.running: "
     "environment values are not put into SQL"),
    ("unset variable", ":-60", "", "10:18: watches.pages.stuck_after: the environment variable "
     "STUCK_MINUTES is not set"),
    ("open string", "'Processing'", "'Processing", "8:14: watch pages: running: "),
    ("two statements", "updated_at\n", "updated_at; DROP TABLE pages\n", "9:15: watch pages: "
     "alive_at: "),
    ("no sign of life", "    alive_at: updated_at\n", "",
     "watch pages: stuck_after needs alive_at"),
    ("no threshold", "    stuck_after: ${STUCK_MINUTES:-60}m\n", "", "9:15: watch pages: "
     "alive_at needs stuck_after"),
    ("YAML", "    key: id\n", "    key: [id\n", "defib.yaml:"),
    ("a database that is not there", "    key: id\n", "    key: id\n    database: mian\n",
     'there is no database "mian"; did you mean "main"?'),
    ("missing key", "    table: pages\n", "", '5:5: "table" is missing in watches.pages'),
]


@pytest.mark.parametrize("right,wrong,says", [m[1:] for m in MISTAKES],
                         ids=[m[0] for m in MISTAKES])
def test_a_mistake_is_told_with_its_place(defib, right, wrong, says):
    assert right in FILE
    ran = check(defib, FILE.replace(right, wrong))
    assert (ran.code, ran.out) == (3, "")
    assert says in ran.err
    assert ran.err.startswith((str(defib.dir / "defib.yaml:"), "defib: "))


SECTIONS = {
    "databases": ("    url: sqlite:x.db", "    url: sqlite:x.db\n    urll: x", "url"),
    "watches": ("    key: id", "    key: id\n    kye: x", "key"),
    "workflows": ("", "workflows: [{name: w, stepps: []}]", "steps"),
    "retention": ("", "retention: {donne: 1d}", "done"),
    "http": ("", "http: {listn: '127.0.0.1:1'}", "listen"),
    "http.tokens": ("", "http: {tokens: [{name: a, env: X, rolle: admin}]}", "role"),
    "environment": ("", "environment: {nmae: test}", "name"),
    "sinks": ("", "sinks: [{name: s, type: log, timeot: 1s}]", "timeout"),
    "alerts": ("", "alerts: {evry: 1s}", "every"),
    "alerts.rules": ("", "alerts: {rules: [{name: stuck_warning, abov: 1}]}", "above"),
    "reports": ("", "reports: [{name: r, sinks: [log], evry: 1d}]", "every"),
}


@pytest.mark.parametrize("section", SECTIONS)
def test_a_misspelt_key_of_each_section_is_refused_with_the_nearest(defib, section):
    right, wrong, meant = SECTIONS[section]
    ran = check(defib, FILE.replace(right, wrong) if right else FILE + wrong + "\n")
    assert (ran.code, ran.out) == (3, "")
    assert "unknown key" in ran.err and f" in {section}" in ran.err
    assert f'did you mean "{meant}"?' in ran.err


def test_all_mistakes_of_a_file_are_told_at_once(defib):
    ran = check(defib, FILE.replace("running:", "runing:").replace("60}m", "60}x"))
    assert "8:5" in ran.err and "10:18" in ran.err


def test_a_quoted_sql_value_may_hold_a_hash_and_be_followed_by_a_comment(defib):
    quoted = FILE.replace("running: state = 'Processing'",
                          "running: \"state = 'a #1'\" # a comment")
    assert check(defib, quoted).code == 0


def test_a_comment_behind_a_value_that_is_no_sql_is_fine(defib):
    assert check(defib, FILE.replace("key: id", "key: id # a comment")).code == 0


def test_a_file_that_is_not_there_is_told_in_one_line(defib):
    ran = defib("config", "check", config=defib.dir / "none.yaml")
    assert ran.code == 3
    assert ran.err.count("\n") == 1 and "none.yaml" in ran.err


def test_without_file_and_database_it_says_what_to_give(defib):
    ran = defib("scan")
    assert ran.code == 3
    assert ran.err.count("\n") == 1 and "--db URL" in ran.err


def test_the_file_of_the_current_folder_is_found(defib):
    (defib.dir / "defib.yaml").write_text(FILE)
    assert defib("config", "check").code == 0


def test_the_environment_can_name_the_file(defib):
    (defib.dir / "other.yaml").write_text(FILE)
    assert defib("config", "check", env={"DEFIB_CONFIG": "other.yaml"}).code == 0


def test_requeue_that_nothing_bounds_is_refused_when_the_ledger_is_off(defib, lite):
    """Whether a watch could loop forever depends on its meaning, not on its syntax."""
    lite.sql("CREATE TABLE pages (id, state, error, updated_at)")
    ran = defib("scan", "--fix", config=FILE + "ledger: off\n", db=lite)
    assert ran.code == 5
    assert "could loop forever" in ran.err


def test_a_watch_may_start_from_another_one(defib):
    """YAML's own anchors and merges: for the same table in several databases."""
    text = FILE.replace("  - name: pages", "  - &pages\n    name: pages") + (
        "  - <<: *pages\n    name: archive\n    table: archived_pages\n")
    values = shown(defib, text=text)
    assert values["watches.archive.table"][0] == "archived_pages"
    assert values["watches.archive.running"] == values["watches.pages.running"]


# ---- what the reference says of rules and parameters ----

PLAIN = """\
databases: [{name: main, url: "sqlite:x.db"}]
watches:
  - name: jobs
    table: jobs
    key: id
    kind: kind
    running: status = 'running'
    alive_at: updated_at
    stuck_after: 1h
    attempts: attempts
    max_attempts: 3
    fail: status = 'failed'
"""


def section(defib, title):
    return defib("config", "docs").out.split(f"\n### {title}\n")[1].split("\n## ")[0]


def test_every_example_of_remedies_in_the_reference_is_one(defib):
    examples = section(defib, "Rules: `remedies`").split("\n### ")[0].split("```yaml\n")[1:]
    assert len(examples) >= 3
    for example in examples:
        rules = "".join(f"    {line}\n" for line in example.split("```")[0].splitlines())
        ran = defib("config", "check", config=PLAIN + "    requeue: status = 'queued'\n" + rules)
        assert ran.code == 0, example + ran.err


def test_the_reference_names_every_parameter_of_a_set_list(defib):
    """Each can be used where the reference says so, and nowhere else."""
    rows = [[cell.strip(" `") for cell in line.split("|")[1:5]]
            for line in section(defib, "Parameters").splitlines() if line.startswith("| `")]
    sets = {"remedies": PLAIN + "    requeue: error = :%s\n",
            "work": PLAIN + "    requeue: status = 'queued'\n    work: {ready: \"status = 'queued'\", "
                            "claim: \"status = 'running'\", done: \"error = :%s\", "
                            "failed: \"status = 'failed'\"}\n"}
    for name, recovers, works, meaning in rows:
        assert meaning
        for where, said in (("remedies", recovers), ("work", works)):
            code = defib("config", "check", config=sets[where] % name).code
            assert code == (0 if said == "yes" else 3), (name, where)
