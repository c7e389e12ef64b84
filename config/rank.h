// SPDX-License-Identifier: Apache-2.0
// Which of several processes of one job this is, according to the variables that launchers set: torchrun, Open MPI,
// MPICH and Intel MPI, MVAPICH2, PMIx, Slurm. Launchers may be nested (mpirun in a Slurm job, torchrun in either). The
// innermost one determines the rank, so its variables are checked first.
//   https://docs.pytorch.org/docs/stable/elastic/run.html (environment variables)
//   https://docs.open-mpi.org/en/v4.1.x/faq/running.html (mpirun, environment variables)
//   https://slurm.schedmd.com/srun.html (output environment variables)
#pragma once

#include <map>
#include <optional>
#include <string>

namespace thermocline {

struct Rank {
  int rank = 0;
  std::optional<int> local;  // on this machine
  std::optional<int> size;   // number of processes of the job
};

// Nothing if no launcher has set the variables.
std::optional<Rank> rank_in(const std::map<std::string, std::string>& variables);
std::optional<Rank> rank_of_process();

}  // namespace thermocline
