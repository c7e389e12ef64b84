/* SPDX-License-Identifier: Apache-2.0
 * Prints the library's version, as a program would that links it.
 */
#include <stdio.h>

#include <thermocline/thermocline.h>

int main(void) {
  printf("%s %d\n", thermocline_version(), thermocline_is_active());
  return 0;
}
