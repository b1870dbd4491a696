-- Symfony Messenger, Doctrine transport: a message that was handed out has delivered_at.
CREATE TABLE messenger_messages (
	id bigserial PRIMARY KEY,
	body text NOT NULL,
	headers text NOT NULL,
	queue_name varchar(190) NOT NULL,
	created_at timestamp(0) NOT NULL,
	available_at timestamp(0) NOT NULL,
	delivered_at timestamp(0) DEFAULT NULL
);
INSERT INTO messenger_messages (body, headers, queue_name, created_at, available_at)
SELECT '{}', '[]', 'default', now() AT TIME ZONE 'UTC', now() AT TIME ZONE 'UTC' FROM generate_series(1, 9);
INSERT INTO messenger_messages (body, headers, queue_name, created_at, available_at)
VALUES ('{}', '[]', 'failed', now() AT TIME ZONE 'UTC', now() AT TIME ZONE 'UTC');
INSERT INTO messenger_messages (body, headers, queue_name, created_at, available_at, delivered_at)
SELECT '{}', '[]', 'default', d.at, d.at, d.at
FROM (VALUES (now() AT TIME ZONE 'UTC' - interval '8 seconds'), (now() AT TIME ZONE 'UTC' - interval '7 hours')) d (at);
