// SPDX-License-Identifier: Apache-2.0
#include "driver/check.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace thermocline {
namespace {

void print_and_abort(const char* file, int line, const char* condition, const char* sentence) {
  std::fprintf(stderr, "thermocline: %s:%d: %s (%s)\n", file, line, sentence, condition);
  std::abort();
}

std::atomic<CheckHandler> installed_handler{&print_and_abort};

}  // namespace

CheckHandler set_check_handler(CheckHandler handler) {
  return installed_handler.exchange(handler != nullptr ? handler : &print_and_abort);
}

void check_failed(const char* file, int line, const char* condition, const char* sentence) {
  installed_handler.load()(file, line, condition, sentence);
}

}  // namespace thermocline
