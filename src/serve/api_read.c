/* api_read.c: see api.h. */
#include "serve/api.h"

const struct api_route api_read_routes[] = {{.method = NULL}};
