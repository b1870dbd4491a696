/*
 * json_config.h: the effective configuration, each value with where it came from.
 */
#ifndef VIEW_JSON_CONFIG_H
#define VIEW_JSON_CONFIG_H

#include "config/options.h"

/* An array, whole. Secrets were masked when they were read. */
void config_json(const struct cfg_shown *shown, int n, struct buf *out);

#endif
