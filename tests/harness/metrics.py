# SPDX-License-Identifier: Apache-2.0
"""The daemon's metrics as tests read them: a scrape, promtool, and a real Prometheus."""

import json
import re
import subprocess
import urllib.parse
import urllib.request

from harness.pgserver import free_port
from harness.program import ROOT
from harness.waiting import eventually, patience, running

RULES = ROOT / "deploy" / "prometheus" / "defib.rules.yml"
SAMPLE = re.compile(r'^([a-z_]+)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')


class Scrape:
    """One answer of /metrics."""

    def __init__(self, text):
        self.samples = {}
        for line in text.splitlines():
            if line.startswith("#"):
                continue
            found = SAMPLE.match(line)
            assert found, line
            labels = frozenset(LABEL.findall(found[2] or ""))
            assert (found[1], labels) not in self.samples, f"twice: {line}"
            self.samples[found[1], labels] = float(found[3])

    def all(self, name, **labels):
        wanted = set(labels.items())
        return {key[1]: v for key, v in self.samples.items() if key[0] == name and wanted <= key[1]}

    def get(self, name, **labels):
        """The sum of the series with these labels; None if there is none."""
        found = self.all(name, **labels)
        return sum(found.values()) if found else None


def scrape(web):
    answer = web.get("/metrics")
    assert answer.status == 200, answer.text
    return Scrape(answer.text)


def wait_scrape(web, what, limit=60):
    """The first scrape for which what(scrape) is true."""
    last = []

    def it_shows():
        last[:] = [scrape(web)]
        return what(last[0]) and last[0]
    try:
        return eventually(it_shows, limit)
    except AssertionError:
        shown = "\n".join(f"{n} {dict(l)} {v}" for (n, l), v in last[0].samples.items()
                          if "_bucket" not in n)
        raise AssertionError(f"not in {limit} s:\n{shown}\n{web.daemon.log[-3000:]}") from None


def promtool(*words, stdin=None):
    ran = subprocess.run(["promtool", *map(str, words)], input=stdin, text=True,
                         capture_output=True, timeout=patience())
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


class Prometheus:
    """The real one, scraping one target every second, with the shipped rules; `job` has what a
    scrape job says beyond its name and target."""

    def __init__(self, folder, target, job=None):
        self.url = f"http://127.0.0.1:{free_port()}"
        (folder / "prometheus.yml").write_text(json.dumps({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [{"job_name": "defib", **(job or {}), "scrape_interval": "1s",
                                "static_configs": [{"targets": [target]}]}]}))
        self.log = folder / "prometheus.log"
        with open(self.log, "wb") as out:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={folder}/prometheus.yml",
                 f"--storage.tsdb.path={folder}/data",
                 f"--web.listen-address={self.url.removeprefix('http://')}"],
                stdout=out, stderr=out)
        eventually(self.is_ready)

    def is_ready(self):
        assert running(self.process.pid), self.log.read_text()
        try:
            return urllib.request.urlopen(self.url + "/-/ready", timeout=5).status == 200
        except OSError:
            return False

    def ask(self, path, **query):
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}",
                                    timeout=10) as answer:
            return json.load(answer)["data"]

    def value(self, query):
        """A query with one answer; None where there is none yet."""
        result = self.ask("query", query=query)["result"]
        return float(result[0]["value"][1]) if result else None

    def firing(self, alert):
        return [a["labels"] for a in self.ask("alerts")["alerts"]
                if a["labels"]["alertname"] == alert and a["state"] == "firing"]

    def close(self):
        self.process.kill()
        self.process.wait()
