/* api_watches.c: see api.h. */
#include "serve/api.h"

const struct api_route api_watch_routes[] = {{.method = NULL}};
