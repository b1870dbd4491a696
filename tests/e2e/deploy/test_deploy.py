# SPDX-License-Identifier: Apache-2.0
"""deploy/: units, cron line, manifests and container file are valid, and what they start runs.

Every command line is taken from its file, adapted to this test's program, configuration and
secrets, and run: an option that the program does not know is found here, not on a host.
"""

import contextlib
import fnmatch
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys

import jsonschema
import pytest
import yaml

from harness.deployment import (
    CONFIG, DEPLOY, Host, analyze, apt_packages, argv_of, by_cron, container_of, cron_line,
    manifests, put_units, unit_lines)
from harness.example_systems import Example, ago
from harness.http_daemon import Web
from harness.metrics import Prometheus, promtool
from harness.program import BIN, ROOT
from harness.waiting import eventually, patience

pytestmark = pytest.mark.plain
SCHEMA = json.loads((ROOT / "tests" / "schemas/kubernetes.json").read_text())
UNITS = ["defib.service", "defib-work@.service", "defib-scan.service", "defib-scan.timer"]
# Of 10: systemd's own measure of what a unit could still reach.
EXPOSURE = {"defib.service": 2.0, "defib-work@.service": 2.5, "defib-scan.service": 2.0}


@pytest.fixture
def host(lite, tmp_path):
    return Host(lite, tmp_path)


# ---- systemd ----


def shipped_units():
    return {name: (DEPLOY / "systemd" / name).read_text() for name in UNITS}


@pytest.mark.covers("C6")
def test_units_are_valid(tmp_path):
    assert analyze("verify", *put_units(tmp_path, shipped_units())) == (0, "")


@pytest.mark.parametrize("unit", EXPOSURE)
def test_units_are_hardened(tmp_path, unit):
    put_units(tmp_path, shipped_units())
    _, said = analyze("security", "--offline=true", tmp_path / unit)
    level = re.search(r"exposure level for \S+: ([0-9.]+)", said)
    if not level:
        pytest.skip(f"systemd-analyze security does not work here: {said.strip()[:200]}")
    assert float(level[1]) <= EXPOSURE[unit], said


class Manager:
    """The end of NOTIFY_SOCKET that systemd has."""

    def __init__(self, folder):
        self.path = folder / "notify"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.path))
        self.socket.settimeout(60)

    def wait(self, word):
        while word not in self.socket.recv(4096).decode().splitlines():
            pass


@pytest.mark.covers("C6")
def test_the_daemons_unit_starts_reloads_and_stops(host):
    unit = (DEPLOY / "systemd/defib.service").read_text()
    assert unit_lines(unit, "Type") == ["notify"]
    manager = Manager(host.folder)
    with contextlib.closing(manager.socket), host.running(
            argv_of(unit), NOTIFY_SOCKET=str(manager.path), WATCHDOG_USEC="60000000") as daemon:
        manager.wait("READY=1")
        manager.wait("WATCHDOG=1")
        eventually(lambda: host.state() == "queued")
        reload = [w.replace("$MAINPID", str(daemon.pid)) for w in argv_of(unit, "ExecReload")]
        assert subprocess.run(reload, check=True).returncode == 0
        manager.wait("RELOADING=1")
        manager.wait("READY=1")


def unit_environment(host, unit):
    """What systemd gives a unit: its own few names, and the file's, whose quotes it takes off."""
    line, = unit_lines(unit, "EnvironmentFile")
    path = pathlib.Path(host.here(line.removeprefix("-")))
    assert path.exists() or line.startswith("-")
    text = path.read_text() if path.exists() else ""
    pairs = [line.split("=", 1) for line in text.splitlines() if line and line[0] not in "#;"]
    kept = {k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}
    return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", "LANG": "C.UTF-8",
            "USER": "defib", "LOGNAME": "defib", "HOME": "/", "SHELL": "/usr/sbin/nologin",
            "STATE_DIRECTORY": str(host.folder / "state"), "INVOCATION_ID": "0" * 32, **kept,
            **{name: value[1:-1] if value[:1] in ("'", '"') else value for name, value in pairs}}


@pytest.mark.covers("C6")
def test_units_find_their_secrets_in_their_environment_file_alone(host):
    for name in ("defib-scan.service", "defib.service"):
        unit = (DEPLOY / "systemd" / name).read_text()
        argv = [host.here(word) for word in argv_of(unit)]
        said = subprocess.run(["timeout", "-s", "TERM", "4", *argv] if "daemon" in argv else argv,
                              env=unit_environment(host, unit), cwd=host.folder, timeout=patience(),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert host.state() == "queued", said.stderr
        host.db.sql(f"UPDATE jobs SET state = 'running', beat = {ago(host.db, 7200)}")
    host.environment.unlink()
    said = subprocess.run([host.here(word) for word in argv_of(unit)], cwd=host.folder, timeout=patience(),
                          env=unit_environment(host, unit), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)
    assert said.returncode == 3 and "DATABASE_URL" in said.stderr


@pytest.mark.covers("C6")
def test_the_scans_unit_recovers_and_a_job_left_for_a_person_is_no_failure(host):
    unit = (DEPLOY / "systemd/defib-scan.service").read_text()
    ran = host.run(argv_of(unit))
    assert (ran.code, host.state()) == (0, "queued"), ran.err
    host.config.write_text(CONFIG.replace("requeue:", "remedies: [{do: hold}]\n    requeue:"))
    host.db.sql(f"UPDATE jobs SET state = 'running', beat = {ago(host.db, 7200)}")
    ran = host.run(argv_of(unit))
    assert str(ran.code) in unit_lines(unit, "SuccessExitStatus"), ran.err


def test_the_workers_unit_works_on_its_watch(host):
    unit = (DEPLOY / "systemd/defib-work@.service").read_text()
    host.db.sql("INSERT INTO jobs VALUES (2, 'ready', NULL)")
    assert host.run(["/usr/local/bin/defib", "init", "-c", "/etc/defib/defib.yaml"]).code == 0
    with host.running(argv_of(unit)):
        eventually(lambda: host.state(2) == "done")


# ---- cron ----


@pytest.mark.covers("C6")
def test_the_cron_line_recovers_and_says_nothing(host):
    text = (DEPLOY / "cron/defib").read_text()
    schedule, user, _ = cron_line(text)
    assert (schedule, user) == ("*/15 * * * *", "defib")
    ran = by_cron(text, host.here, host.folder)
    assert (ran.code, ran.out, ran.err, host.state()) == (0, "", "", "queued")


def test_the_cron_line_needs_no_environment_file(host, defib):
    """A file that is not there ended the shell before defib began."""
    host.environment.unlink()
    host.config.write_text(CONFIG.replace("${DATABASE_URL}", host.db.url))
    ran = by_cron(deploy(defib, "cron", config=host.config).out, host.here, host.folder)
    assert (ran.code, ran.out, ran.err, host.state()) == (0, "", "", "queued")


def test_the_cron_line_says_what_is_missing_when_its_secrets_are(host, defib):
    text = deploy(defib, "cron", config=host.config).out
    host.environment.unlink()
    ran = by_cron(text, host.here, host.folder)
    assert ran.code == 3 and "DATABASE_URL" in ran.err
    # There, but not for the user that cron runs it as: root without its privilege to read anything.
    host.environment.write_text("DATABASE_URL='sqlite:x.db'\n")
    host.environment.chmod(0)
    plain = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    ran = by_cron(text, host.here, host.folder, plain if os.geteuid() == 0 else ())
    assert ran.code == 3 and "DATABASE_URL" in ran.err


@pytest.mark.parametrize("value", ["two words", "$HOME and `id` and $(id)", 'say "hi" & go; #not',
                                   "back\\slash"])
def test_values_reach_the_scan_of_the_cron_line_as_they_are(host, defib, value):
    host.config.write_text(CONFIG.replace(
        "stuck_after: 1h", 'stuck_after: 1h\n    label: "${LABEL}"'))
    host.environment.write_text(f"DATABASE_URL='{host.db.url}'\nLABEL='{value}'\n")
    text = deploy(defib, "cron", config=host.config).out
    ran = by_cron(text, host.here, host.folder)
    assert (ran.code, ran.err, host.state()) == (0, "", "queued")
    shown = by_cron(text.replace("scan --fix --quiet", "config show --json").replace(
        ">/dev/null", ""), host.here, host.folder)
    values = {entry["path"]: entry["value"] for entry in shown.json}
    assert values["watches.jobs.label"] == value


@pytest.mark.covers("A4", "C6")
def test_threshold_and_switch_come_from_the_environment_of_the_cron_line(lite, defib, tmp_path):
    """By the names that ScraperSky's document gives them."""
    system = Example("scrapersky", lite, defib)
    system.insert("sitemap_files", id="a", domain="d", sitemap_import_status="Processing",
                  updated_at=system.ago(1800))
    command = cron_line((DEPLOY / "cron/defib").read_text())[2]
    secrets = tmp_path / "environment"

    def recovered(**environment):
        environment["DATABASE_URL"] = lite.url
        secrets.write_text("".join(f"{k}='{v}'\n" for k, v in environment.items()))
        here = command.replace("/usr/local/bin/defib", str(BIN)).replace(
            "/etc/defib/defib.yaml", str(system.config)).replace(
            "/etc/defib/environment", str(secrets))
        subprocess.run(["/bin/sh", "-c", here], check=True, timeout=patience(), cwd=tmp_path)
        return lite.sql("SELECT sitemap_import_status FROM sitemap_files")[0][0] == "Queued"

    assert not recovered()
    assert not recovered(ZOMBIE_STUCK_THRESHOLD_MINUTES=20, ZOMBIE_CLEANUP_ENABLED="false")
    assert recovered(ZOMBIE_STUCK_THRESHOLD_MINUTES=20)


# ---- Kubernetes ----


@pytest.mark.parametrize("name", ["configmap", "deployment", "service", "cronjob"])
@pytest.mark.covers("C6")
def test_manifests_are_valid(name):
    jsonschema.validate(manifests()[f"{name}.yaml"], SCHEMA)


def test_the_schema_refuses_a_slip():
    """Shows that the test above can fail."""
    for old, new in (("livenessProbe", "livenesProbe"), ("httpGet", "httpget"),
                     ("runAsNonRoot: true", 'runAsNonRoot: "yes"'), ("apps/v1", "v1")):
        text = (DEPLOY / "kubernetes/deployment.yaml").read_text().replace(old, new)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(yaml.safe_load(text), SCHEMA)


def secrets_of(container):
    return [e["valueFrom"]["secretKeyRef"]["key"] for e in container["env"]]


@pytest.mark.parametrize("name", ["deployment", "cronjob"])
def test_containers_may_do_nothing_but_their_work(name):
    pod, container = container_of(manifests()[f"{name}.yaml"])
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"] == {"allowPrivilegeEscalation": False,
                                            "readOnlyRootFilesystem": True,
                                            "capabilities": {"drop": ["ALL"]}}
    assert "memory" in container["resources"]["limits"]
    assert {m["name"] for m in container["volumeMounts"]} == {v["name"] for v in pod["volumes"]}


def test_service_and_deployment_belong_together():
    all_ = manifests()
    pod = all_["deployment.yaml"]["spec"]["template"]
    _, container = container_of(all_["deployment.yaml"])
    wanted = all_["service.yaml"]["spec"]["selector"]
    assert wanted.items() <= pod["metadata"]["labels"].items()
    assert all_["service.yaml"]["spec"]["ports"][0]["targetPort"] == container["ports"][0]["name"]
    assert container["args"][container["args"].index("--listen") + 1].endswith(
        f":{container['ports'][0]['containerPort']}")


def port_of(daemon):
    for line in daemon.log().splitlines():
        event = json.loads(line)
        if event["msg"] == "http server started":
            return int(event["address"].rpartition(":")[2])
    return None


@pytest.mark.covers("C6", "D11")
def test_the_deployment_runs_and_its_probes_answer(host):
    """With the configuration that ships, but for the table."""
    shipped = manifests()["configmap.yaml"]["data"]["defib.yaml"]
    host.config.write_text(CONFIG + shipped[shipped.index("http:"):])
    _, container = container_of(manifests()["deployment.yaml"])
    argv = [w.replace("0.0.0.0:8080", "0.0.0.0:0") for w in
            container["command"] + container["args"]]
    with host.running(argv, secrets_of(container)) as daemon:
        web = Web("127.0.0.1", eventually(lambda: port_of(daemon)))
        for probe in ("livenessProbe", "readinessProbe"):
            path = container[probe]["httpGet"]["path"]
            # Kubernetes asks by the pod's address.
            eventually(lambda p=path: web.get(p, headers={"Host": "10.1.2.3:8080"}).status == 200)
        assert web.get("/api/v1/status").status == 401
        web.token = host.secrets["DEFIB_TOKEN"]
        assert web.get("/api/v1/status").status == 200
        eventually(lambda: host.state() == "queued")


@pytest.mark.parametrize("config", [CONFIG, CONFIG + """http:
  tokens:
    - {name: anna, role: admin, env: ANNAS}
    - {name: graphs, role: viewer, env: DEFIB_METRICS_TOKEN}
"""], ids=["ours", "own"])
def test_prometheus_is_let_in_with_the_token_of_its_scrape_job(host, defib, config):
    """What is printed for Kubernetes, scraped by a real Prometheus with the job that ships; only
    where its targets and its secret are is this test's. Without the token it is refused."""
    documents = list(yaml.safe_load_all(deploy(defib, "k8s", config=config).out))
    host.config.write_text(documents[0]["data"]["defib.yaml"])
    host.secrets["ANNAS"] = "a" * 32
    _, container = container_of(documents[1])
    assert "annotations" not in documents[1]["spec"]["template"]["metadata"]
    argv = [w.replace("0.0.0.0:8080", "0.0.0.0:0") for w in
            container["command"] + container["args"]]
    scrape, = yaml.safe_load((DEPLOY / "prometheus/kubernetes.yml").read_text())["scrape_configs"]
    mounted = pathlib.Path(scrape["authorization"]["credentials_file"]).name
    assert mounted in secrets_of(container)
    token = host.folder / mounted
    token.write_text(host.secrets[mounted])
    with host.running(argv, secrets_of(container)) as daemon:
        target = f"127.0.0.1:{eventually(lambda: port_of(daemon))}"
        assert Web("127.0.0.1", int(target.split(":")[1])).get("/metrics").status == 401
        for part in ("kubernetes_sd_configs", "relabel_configs"):
            del scrape[part]
        scrape["authorization"]["credentials_file"] = str(token)
        with contextlib.closing(Prometheus(host.folder, target, scrape)) as prometheus:
            eventually(lambda: prometheus.value('up{job="defib"}') == 1)


def test_the_scrape_job_for_kubernetes_is_right(tmp_path):
    shipped = DEPLOY / "prometheus/kubernetes.yml"
    config = yaml.safe_load(shipped.read_text())
    # Debian's Prometheus is built without it.
    assert config["scrape_configs"][0].pop("kubernetes_sd_configs") == [{"role": "pod"}]
    config["scrape_configs"][0]["authorization"]["credentials_file"] = str(tmp_path / "token")
    (tmp_path / "token").write_text("x" * 32)
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    promtool("check", "config", tmp_path / "prometheus.yml")
    relabel = yaml.safe_load(shipped.read_text())["scrape_configs"][0]["relabel_configs"]
    _, container = container_of(manifests()["deployment.yaml"])
    labels = manifests()["deployment.yaml"]["spec"]["template"]["metadata"]["labels"]
    pod = {"__meta_kubernetes_pod_container_port_name": container["ports"][0]["name"],
           **{"__meta_kubernetes_pod_label_" + re.sub(r"\W", "_", k): v for k, v in labels.items()}}
    for rule in relabel:
        if rule.get("action") == "keep":
            assert pod[rule["source_labels"][0]] == rule["regex"]


@pytest.mark.covers("C6")
def test_the_cron_job_recovers_and_a_job_left_for_a_person_is_no_failure(host):
    _, container = container_of(manifests()["cronjob.yaml"])
    # No shell of the host's: it knows $? as Kubernetes' would.
    assert host.run(container["command"], secrets_of(container)).code == 0
    assert host.state() == "queued"
    host.config.write_text(CONFIG.replace("requeue:", "remedies: [{do: hold}]\n    requeue:"))
    host.db.sql(f"UPDATE jobs SET state = 'running', beat = {ago(host.db, 7200)}")
    assert host.run(container["command"], secrets_of(container)).code == 0
    host.secrets["DATABASE_URL"] = "postgres://x@127.0.0.1:1/y"
    assert host.run(container["command"], secrets_of(container)).code != 0


def test_the_configuration_that_ships_is_right(defib):
    text = manifests()["configmap.yaml"]["data"]["defib.yaml"]
    ran = defib("config", "check", config=text,
                env={"DATABASE_URL": "postgres://x@127.0.0.1/y", "DEFIB_TOKEN": "x" * 32,
                     "DEFIB_METRICS_TOKEN": "y" * 32})
    assert ran.code == 0, ran.err


# ---- the container ----

def steps(word):
    text = (DEPLOY / "container/Containerfile").read_text().replace("\\\n", " ")
    return [line.split(None, 1)[1] for line in text.splitlines() if line.startswith(f"{word} ")]


def ignored(path):
    """Whether .dockerignore keeps a path of the root from whoever builds."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    assert not any("!" in p or "/" in p for p in patterns)  # what this test understands
    return any(fnmatch.fnmatch(path.split("/")[0], p) for p in patterns)


def build_context(folder):
    """The image's WORKDIR with what the file copies, and nothing else."""
    folder.mkdir()
    for line in steps("COPY"):
        words = line.split()
        if words[0].startswith("--from="):
            continue
        for source in words[:-1]:
            assert not ignored(source), source
            to = folder / words[-1]
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, to)
            else:
                shutil.copy(ROOT / source, to / source)
    return folder


def listed(root):
    return subprocess.run([sys.executable, root / "scripts/sources.py", "all"], check=True,
                          capture_output=True, text=True).stdout.split()


def test_the_container_is_built_from_what_the_file_copies(tmp_path):
    """Its build is set up in a folder that holds exactly that; nothing in it misses a file."""
    context = build_context(tmp_path / "src")
    assert listed(context) == [path for path in listed(ROOT) if not path.startswith("tests/")]
    setup = subprocess.run(["meson", "setup", "build", "-Dtests=false"], cwd=context, text=True,
                           capture_output=True, timeout=patience(), check=False)
    assert setup.returncode == 0, setup.stdout[-2000:]
    ninja = subprocess.run(["ninja", "-C", "build", "-n"], cwd=context, text=True, timeout=patience(),
                           capture_output=True, check=False)
    assert ninja.returncode == 0, ninja.stdout[-2000:]
    installed = json.loads(subprocess.run(
        ["meson", "introspect", "--installed", "build"], cwd=context, text=True,
        capture_output=True, timeout=patience(), check=True).stdout)
    assert [to for to in installed.values() if to.endswith("/bin/defib")]
    for source in installed:
        made = not source.startswith("/") or source.startswith(str(context / "build"))
        assert made or pathlib.Path(source).exists(), source


@pytest.mark.proof
def test_the_steps_of_the_container_file_build_a_program_that_runs(tmp_path):
    context = build_context(tmp_path / "src")
    step, = [step for step in steps("RUN") if "make all" in step]
    ran = subprocess.run(["/bin/sh", "-c", step.replace("/made", str(tmp_path / "made"))],
                         cwd=context, capture_output=True, text=True, timeout=patience(), check=False)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    copied, = [line.split() for line in steps("COPY") if line.startswith("--from=")]
    program = tmp_path / copied[1].lstrip("/")
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert said.stdout.startswith("defib ")


def test_the_container_file_installs_what_the_build_and_the_program_need():
    build, run = [step for step in steps("RUN") if "apt-get install" in step]
    setup = re.search(r'build_packages="([^"]*)"', (ROOT / "scripts/setup").read_text())[1]
    assert apt_packages(build) == set(setup.split()) | {"make"}
    needed = subprocess.run(["objdump", "-p", BIN], capture_output=True, text=True, check=True)
    libraries = re.findall(r"NEEDED\s+(\S+)", needed.stdout)
    machine = subprocess.run(["gcc", "-print-multiarch"], capture_output=True, text=True,
                             check=True).stdout.strip()
    found = subprocess.run(["dpkg-query", "-S", *[f"*/{machine}/{name}" for name in libraries]],
                           capture_output=True, text=True, check=False).stdout
    owners = {line.split(":")[0] for line in found.splitlines()}
    assert "libpq5" in owners
    assert owners - {"libc6", "libgcc-s1", "libstdc++6"} <= apt_packages(run)


def test_the_image_that_is_built_is_the_one_that_is_run(defib):
    version = defib("--version").out.split()[1]
    text = (DEPLOY / "container/Containerfile").read_text()
    assert f"-t defib:{version} " in text
    for name in ("deployment", "cronjob"):
        assert container_of(manifests()[f"{name}.yaml"])[1]["image"] == f"defib:{version}"


# ---- defib deploy ----

def deploy(defib, kind, *args, config=CONFIG, code=0, env=None):
    ran = defib("deploy", kind, *args, config=config, env=env)
    assert ran.code == code, ran.err
    return ran


@pytest.mark.covers("C6")
def test_deploy_fills_in_paths_names_and_interval(defib):
    config = CONFIG.replace("${DATABASE_URL}", "${JOBS_URL}")
    unit = deploy(defib, "systemd", config=config).out
    assert f"ExecStart={BIN} daemon -c {defib.dir}/defib.yaml" in unit
    assert "# Watches: jobs." in unit
    assert "JOBS_URL='postgres://…'" in unit and "DATABASE_URL" not in unit
    timer = deploy(defib, "systemd-timer", config=config).out
    assert "OnUnitActiveSec=300s" in timer
    assert cron_line(deploy(defib, "cron", config=config).out)[0] == "*/5 * * * *"


@pytest.mark.parametrize("every, wanted", [
    ("20s", "* * * * *"), ("60s", "* * * * *"), ("7m", "*/6 * * * *"), ("45m", "*/30 * * * *"),
    ("1h", "0 * * * *"), ("5h", "0 */4 * * *"), ("3d", "0 0 * * *")])
def test_cron_scans_at_least_as_often_as_the_watch_wants(defib, every, wanted):
    config = CONFIG.replace("every: 5m", f"every: {every}")
    assert cron_line(deploy(defib, "cron", config=config).out)[0] == wanted


def test_printed_units_are_valid(defib, tmp_path):
    for kind in ("systemd", "systemd-timer"):
        deploy(defib, kind, "--output", tmp_path / "units")
    units = sorted((tmp_path / "units").iterdir())
    assert [u.name for u in units] == sorted(UNITS)
    assert analyze("verify", *units) == (0, "")


def test_printed_manifests_are_valid_and_hold_the_configuration(defib):
    config = CONFIG.replace("url: ${DATABASE_URL}", "url: ${A_URL}\n  - name: b\n    url: ${B_URL}")
    for kind, kinds in (("k8s", ["ConfigMap", "Deployment", "Service"]),
                        ("k8s-cron", ["ConfigMap", "CronJob"])):
        documents = list(yaml.safe_load_all(deploy(defib, kind, config=config).out))
        assert [d["kind"] for d in documents] == kinds
        for document in documents:
            jsonschema.validate(document, SCHEMA)
        names = secrets_of(container_of(documents[1])[1])
        assert [n for n in names if not n.endswith("_TOKEN")] == ["A_URL", "B_URL"]
        assert documents[0]["data"]["defib.yaml"].startswith(config)
    assert documents[1]["spec"]["schedule"] == "*/5 * * * *"


def test_a_pod_gets_a_token_unless_the_configuration_has_one(defib):
    def made(config):
        documents = list(yaml.safe_load_all(deploy(defib, "k8s", config=config).out))
        inside = yaml.safe_load(documents[0]["data"]["defib.yaml"])
        return secrets_of(container_of(documents[1])[1]), inside["http"]["tokens"][0]["name"]
    assert made(CONFIG) == (["DEFIB_TOKEN", "DEFIB_METRICS_TOKEN", "DATABASE_URL"], "operator")
    own = CONFIG + "http: {tokens: [{name: anna, role: viewer, env: ANNAS}]}\n"
    assert made(own) == (["DATABASE_URL", "ANNAS"], "anna")


def test_what_the_configuration_takes_from_the_environment_is_asked_for(defib):
    config = CONFIG + "sinks: [{name: chat, type: webhook, url: '${CHAT}'}]\n" \
        "ledger: ${LEDGER:-auto}\n"
    documents = list(yaml.safe_load_all(deploy(defib, "k8s-cron", config=config).out))
    assert secrets_of(container_of(documents[1])[1]) == ["DATABASE_URL", "CHAT"]


def test_what_programs_are_given_by_name_is_asked_for_where_they_are_started(defib):
    config = CONFIG.replace("      command:", "      pass_environment: [API_KEY, 'MODE=x']\n"
                            "      command:") + """\
sinks: [{name: run, type: command, run: [/bin/true], pass_environment: PAGER_KEY}]
workflows: [{name: w, pass_environment: [SHOP_KEY], steps: [{name: a, run: [/bin/true]}]}]
"""
    documents = list(yaml.safe_load_all(deploy(defib, "k8s", config=config).out))
    assert [n for n in secrets_of(container_of(documents[1])[1]) if not n.endswith("_TOKEN")] == [
        "DATABASE_URL", "PAGER_KEY"]
    documents = list(yaml.safe_load_all(deploy(defib, "k8s-cron", config=config).out))
    assert secrets_of(container_of(documents[1])[1]) == ["DATABASE_URL"]
    units = deploy(defib, "systemd", config=config).out
    for name in ("DATABASE_URL", "PAGER_KEY", "API_KEY", "SHOP_KEY"):
        assert f"{name}='" in units
    assert "MODE" not in units


def test_the_cron_job_as_it_ships_needs_no_token_of_the_daemon(host):
    shipped = manifests()["configmap.yaml"]["data"]["defib.yaml"]
    host.config.write_text(CONFIG + shipped[shipped.index("http:"):])
    _, container = container_of(manifests()["cronjob.yaml"])
    ran = host.run(container["command"], secrets_of(container))
    assert (ran.code, host.state()) == (0, "queued"), ran.err


def test_without_a_configuration_the_files_are_as_they_ship(defib):
    ran = defib("deploy", "cron")
    assert (ran.code, ran.out) == (0, (DEPLOY / "cron/defib").read_text())
    assert "no configuration" in ran.err
    assert defib("deploy", "container").out == (DEPLOY / "container/Containerfile").read_text()


def test_a_password_in_the_configuration_is_warned_of(defib):
    ran = deploy(defib, "cron", config=CONFIG.replace("${DATABASE_URL}", "postgres://u:p@h/d"))
    assert "readable by all" in ran.err


@pytest.mark.parametrize("args, said", [
    ((), "takes systemd"), (("systemdd",), 'did you mean "systemd"?'),
    (("cron", "--output", "/nowhere/at/all"), "cannot create")])
def test_bad_input_is_one_line(defib, args, said):
    ran = defib("deploy", *args, config=CONFIG)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert said in ran.err


def test_a_path_that_a_unit_cannot_hold_is_refused(defib):
    path = defib.dir / "with blank.yaml"
    path.write_text(CONFIG)
    ran = defib("deploy", "systemd", config=path)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
