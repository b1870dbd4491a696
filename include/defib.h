/*
 * defib.h: the public face of libdefib.
 *
 * Every call that can fail returns a defib_err; DEFIB_OK is 0. Text that is
 * handed out is owned by the library unless a contract says otherwise. The
 * library installs no signal handlers and never waits for processes that it
 * did not start.
 */
#ifndef DEFIB_H
#define DEFIB_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define DEFIB_API __attribute__((visibility("default")))
#define DEFIB_MUST_CHECK __attribute__((warn_unused_result))
#else
#define DEFIB_API
#define DEFIB_MUST_CHECK
#endif

/*
 * Error classes. The class decides what is right to do next, so there is one
 * class a reaction and not one a cause. X(name, number, text)
 */
#define DEFIB_ERR_LIST(X)                                                                          \
	X(OK, 0, "ok")                                                                                 \
	X(USAGE, 1, "wrong usage")                                                                     \
	X(CONFIG, 2, "wrong configuration")                                                            \
	X(CONNECTION, 3, "connection lost or not to be had; nothing of the call was done")             \
	X(UNKNOWN_OUTCOME, 4, "the reply was lost; what was asked may have been done: read again")     \
	X(TIMEOUT, 5, "not done within its time limit")                                                \
	X(LOCKED, 6, "serialization failure, deadlock or lock time-out: may be tried again")           \
	X(CONSTRAINT, 7, "a constraint of the table refused it")                                       \
	X(PERMISSION, 8, "the database role lacks a privilege")                                        \
	X(READ_ONLY, 9, "the database is read-only")                                                   \
	X(BAD_SQL, 10, "the database could not run this SQL")                                          \
	X(FULL, 11, "no space, memory or connection slot left in the database")                        \
	X(IO, 12, "input or output failed")                                                            \
	X(REFUSED, 13, "refused by a guard")                                                           \
	X(NOT_FOUND, 14, "not found")                                                                  \
	X(DATABASE, 15, "another database error")                                                      \
	X(LEASE_LOST, 16, "the lease on the job or worker is lost; it is no longer ours to write")

typedef enum defib_err {
#define DEFIB_ERR_ENUM(name, number, text) DEFIB_##name = (number),
	DEFIB_ERR_LIST(DEFIB_ERR_ENUM)
#undef DEFIB_ERR_ENUM
} defib_err;

/* "OK", "CONNECTION", …; never NULL. */
DEFIB_API const char *defib_err_name(defib_err err);
/* One line for people; never NULL. */
DEFIB_API const char *defib_err_text(defib_err err);
/* "0.1.0" */
DEFIB_API const char *defib_version(void);

#ifdef __cplusplus
}
#endif
#endif
