/* silence.c: see silence.h. */
#include "life/silence.h"

#include "base/clock.h"
#include "base/log.h"

#define SHARE 0.55
#define MORE_THAN 2

void silence_init(struct silence *s, int64_t lease_ms, int64_t ceiling_ms)
{
	*s = (struct silence){
		.rules = {.on = ceiling_ms >= 0,
	              .share = SHARE,
	              .owners = MORE_THAN,
	              .limit_us = lease_ms * 1000,
	              .quiet_us = lease_ms * 1000,
	              .ceiling_us = (ceiling_ms > 0 ? ceiling_ms : SILENCE_CEILING_MS) * 1000},
	};
}

void silence_release(struct silence *s)
{
	brake_clear(&s->brake);
}

static void tell(const struct silence *s)
{
	const struct brake *b = &s->brake;
	struct buf until = BUF_INIT;
	if (b->engaged) {
		time_iso(b->since_us + s->rules.ceiling_us, &until);
		log_event(LOG_WARN,
		          "most workers fell silent at once: none is declared dead until they return or "
		          "their end is seen",
		          LOG_INT("silent", b->silent), LOG_INT("of", b->silent + b->beating),
		          LOG_STR("at_the_latest", buf_text(&until)));
	} else {
		log_event(LOG_WARN, "silence counts again", LOG_STR("because", b->ended));
	}
	buf_release(&until);
}

/* The id as the brake's name for an owner. */
struct worker_text {
	char text[24];
};

static struct worker_text text_of(int64_t id)
{
	struct worker_text t;
	snprintf(t.text, sizeof t.text, "%lld", (long long)id);
	return t;
}

void silence_step(struct silence *s, const struct registered *all, int n, int64_t boot_us)
{
	static const struct doubt none = {0};
	struct arena a = ARENA_INIT;
	struct census_row *census = ARENA_ARRAY(&a, struct census_row, n + 1);
	bool before = s->brake.engaged;
	s->excused = false;
	for (int i = 0; i < n; i++) {
		s->excused = s->excused || all[i].excused;
		struct worker_text name = text_of(all[i].id);
		int64_t late_us = all[i].expires_us - all[i].lease_us / 2;
		census[i] = (struct census_row){.owner = arena_strdup(&a, name.text),
		                                .sign_us = late_us - s->rules.limit_us};
	}
	brake_step(&s->brake, &s->rules, &none, n ? all[0].now_us : 0, boot_us, census, n);
	if (s->brake.engaged != before)
		tell(s);
	arena_release(&a);
}

bool silence_convicts(const struct silence *s, const struct registered *r)
{
	struct worker_text name = text_of(r->id);
	return r->expired && !r->excused && !brake_holds(&s->brake, name.text);
}

bool silence_holds(const struct silence *s)
{
	return s->brake.engaged || s->excused;
}
