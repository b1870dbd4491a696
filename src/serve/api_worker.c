/* api_worker.c: see api.h. */
#include "serve/api.h"

const struct api_route api_worker_routes[] = {{.method = NULL}};
