// SPDX-License-Identifier: Apache-2.0
#include "offload/spill/ring.h"

#include <liburing.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>
#include <utility>

#include "offload/spill/own_descriptors.h"

namespace thermocline {
namespace {

// Disks reach their full rate with a few MiB in flight; a unit of 32 MiB is 16 pieces.
constexpr unsigned kDepth = 8;
constexpr Bytes kPieceBytes = 2 * kMiB;

struct Piece {
  Bytes offset = 0;
  char* memory = nullptr;
  Bytes bytes = 0;  // still to be transferred
};

}  // namespace

struct Ring::State {
  io_uring ring{};
  std::array<Piece, kDepth> pieces;

  // State of one call of transfer().
  int file = -1;
  bool writes = false;
  Bytes next = 0, end = 0;  // offsets not handed out yet
  char* next_memory = nullptr;
  unsigned under_way = 0;
  int error = 0;

  void submit(Piece& piece);
  void begin_piece(Piece& piece);
  void ended(io_uring_cqe* entry);
};

std::unique_ptr<Ring> Ring::create(int* error) {
  auto state = std::make_unique<State>();
  *error = -io_uring_queue_init(kDepth, &state->ring, 0);
  if (*error != 0) return nullptr;
  // The ring's memory is shared with the kernel: a child would submit to the parent's ring.
  static_cast<void>(io_uring_ring_dontfork(&state->ring));
  note_descriptor(state->ring.ring_fd);
  return std::unique_ptr<Ring>(new Ring(std::move(state)));
}

Ring::Ring(std::unique_ptr<State> state) : state_(std::move(state)) {}

Ring::~Ring() {
  forget_descriptor(state_->ring.ring_fd);
  io_uring_queue_exit(&state_->ring);
}

void Ring::State::submit(Piece& piece) {
  // There are as many entries as pieces, and each piece has one.
  io_uring_sqe* const entry = io_uring_get_sqe(&ring);
  if (writes) {
    io_uring_prep_write(entry, file, piece.memory, static_cast<unsigned>(piece.bytes), piece.offset);
  } else {
    io_uring_prep_read(entry, file, piece.memory, static_cast<unsigned>(piece.bytes), piece.offset);
  }
  io_uring_sqe_set_data(entry, &piece);
  ++under_way;
}

void Ring::State::begin_piece(Piece& piece) {
  if (next == end || error != 0) return;
  piece = {next, next_memory, std::min(kPieceBytes, end - next)};
  next += piece.bytes;
  next_memory += piece.bytes;
  submit(piece);
}

void Ring::State::ended(io_uring_cqe* entry) {
  Piece& piece = *static_cast<Piece*>(io_uring_cqe_get_data(entry));
  const int result = entry->res;
  io_uring_cqe_seen(&ring, entry);
  --under_way;
  if (result == -EINTR || result == -EAGAIN) return submit(piece);
  if (result <= 0) {
    // No progress: a read at the end of the file, or a write without room.
    if (error == 0) error = result < 0 ? -result : EIO;
    return;
  }
  const Bytes done = std::min<Bytes>(static_cast<Bytes>(result), piece.bytes);
  if (done < piece.bytes) {
    piece = {piece.offset + done, piece.memory + done, piece.bytes - done};
    return submit(piece);
  }
  begin_piece(piece);
}

int Ring::transfer(int file, bool writes, Bytes offset, void* memory, Bytes bytes) {
  State& state = *state_;
  state.file = file;
  state.writes = writes;
  state.next = offset;
  state.end = offset + bytes;
  state.next_memory = static_cast<char*>(memory);
  state.error = 0;
  for (Piece& piece : state.pieces) state.begin_piece(piece);
  // The kernel may use the memory until every piece has ended, whatever went wrong.
  while (state.under_way > 0) {
    if (const int submitted = io_uring_submit_and_wait(&state.ring, 1);
        submitted < 0 && submitted != -EINTR && submitted != -EAGAIN && submitted != -EBUSY) {
      if (state.error == 0) state.error = -submitted;
      // Entries that the kernel has not taken will never end.
      if (io_uring_sq_ready(&state.ring) >= state.under_way) break;
      std::this_thread::yield();
    }
    io_uring_cqe* entry = nullptr;
    while (state.under_way > 0 && io_uring_peek_cqe(&state.ring, &entry) == 0) state.ended(entry);
  }
  return state.error;
}

}  // namespace thermocline
