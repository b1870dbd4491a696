/*
 * auth.h: who asks, and what he may do.
 *
 * Tokens come from files or the environment, never from the command line. They are
 * compared in constant time, all of them each time. Failures from one address are
 * limited. Without any token only loopback is served, to anybody there, as admin; a
 * viewer never sees what a watch masks.
 *
 * A browser that carries no token of ours (loopback) could be made to ask by any page:
 * so a Host that is not ours, and a request that says it comes from another site, are
 * refused (auth_from_here()). Pure: time is handed in.
 */
#ifndef SERVE_AUTH_H
#define SERVE_AUTH_H

#include "base/fail.h"

/* What each may: see, act on jobs, steer the daemon (pause, raise, guards, alerts). */
enum role { ROLE_NONE, ROLE_VIEWER, ROLE_OPERATOR, ROLE_ADMIN };
extern const char *const role_names[]; /* "none", "viewer", "operator", "admin" */

#endif
