/* SPDX-License-Identifier: Apache-2.0
 * series.h: numbers over time as JSON, for charts.
 */
#ifndef VIEW_SERIES_H
#define VIEW_SERIES_H

#include "insight/series.h"

/* One document; `watch` NULL: all watches of the database. */
void series_view(const char *database, const char *watch, const struct series *s, struct buf *out);

#endif
