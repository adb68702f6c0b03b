/* Edit distance of two words. */
#ifndef DT__CORE_DISTANCE_H
#define DT__CORE_DISTANCE_H

#define DT__LONGEST_WORD 160

/* The least number of letters to insert, delete, replace, or swap with their neighbour (optimal
 * string alignment distance). Ignores case, and equates '-' and '_'. DT__LONGEST_WORD if a word is
 * longer than that. */
int dt__distance(const char *a, const char *b);

#endif
