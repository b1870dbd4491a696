/* events.c: see api.h. */
#include "serve/api.h"

const struct api_route api_event_routes[] = {{.method = NULL}};
