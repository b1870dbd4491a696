/* api_act.c: see api.h. */
#include "serve/api.h"

const struct api_route api_act_routes[] = {{.method = NULL}};
