# SPDX-License-Identifier: Apache-2.0
"""What Scristill's document (B) says, word for word."""


REASON = "Container restart: job was running when previous instance stopped"
ANSWER_S = 5
# The document's verification, as it is typed there.
FAKE_STALE_JOBS = """
INSERT INTO jobs (id, project_id, type, status, payload, created_at, updated_at)
VALUES
  (gen_random_uuid(), (SELECT id FROM projects LIMIT 1), 'scrape', 'running', '{"test":true}', now() - interval '1 hour', now() - interval '1 hour'),
  (gen_random_uuid(), (SELECT id FROM projects LIMIT 1), 'crawl', 'running', '{"test":true}', now() - interval '1 hour', now() - interval '1 hour');
"""  # noqa: E501
