// SPDX-License-Identifier: Apache-2.0
#include "trace/linear_programme.h"

#include <Clp_C_Interface.h>

#include "driver/check.h"

namespace thermocline {

// Weights by variable (column-wise): those of variable v are [start[v], start[v + 1]).
struct LinearProgramme::Columns {
  std::vector<int> start, row;
  std::vector<double> weight;
};

struct LinearProgramme::Solver {
  Solver() : model(Clp_newModel()) { Clp_setLogLevel(model, 0); }
  ~Solver() { Clp_deleteModel(model); }
  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;
  Clp_Simplex* model;
};

LinearProgramme::LinearProgramme() = default;
LinearProgramme::~LinearProgramme() = default;

int LinearProgramme::add_variable(double low, double high, double cost) {
  low_.push_back(low);
  high_.push_back(high);
  cost_.push_back(cost);
  return static_cast<int>(cost_.size()) - 1;
}

int LinearProgramme::add_row(double low, double high) {
  row_low_.push_back(low);
  row_high_.push_back(high);
  return static_cast<int>(row_low_.size()) - 1;
}

void LinearProgramme::add_term(int row, int variable, double weight) {
  THERMOCLINE_CHECK(!solver_, "a programme that was solved gets no more terms");
  terms_.push_back({row, variable, weight});
}

void LinearProgramme::set_row(int row, double low, double high) {
  row_low_[static_cast<std::size_t>(row)] = low;
  row_high_[static_cast<std::size_t>(row)] = high;
}

void LinearProgramme::load() {
  columns_ = std::make_unique<Columns>();
  columns_->start.assign(variables() + 1, 0);
  columns_->row.resize(terms_.size());
  columns_->weight.resize(terms_.size());
  for (const Term& term : terms_) ++columns_->start[static_cast<std::size_t>(term.variable) + 1];
  for (std::size_t v = 0; v < variables(); ++v) columns_->start[v + 1] += columns_->start[v];
  std::vector<int> next(columns_->start.begin(), columns_->start.end() - 1);
  for (const Term& term : terms_) {
    const auto at = static_cast<std::size_t>(next[static_cast<std::size_t>(term.variable)]++);
    columns_->row[at] = term.row;
    columns_->weight[at] = term.weight;
  }
  terms_.clear();
  solver_ = std::make_unique<Solver>();
  Clp_loadProblem(solver_->model, static_cast<int>(variables()), static_cast<int>(rows()), columns_->start.data(),
                  columns_->row.data(), columns_->weight.data(), low_.data(), high_.data(), cost_.data(),
                  row_low_.data(), row_high_.data());
}

double LinearProgramme::lower_bound(int most_iterations, First first) {
  const bool is_first = !solver_;
  if (is_first) load();
  Clp_chgRowLower(solver_->model, row_low_.data());
  Clp_chgRowUpper(solver_->model, row_high_.data());
  Clp_setMaximumIterations(solver_->model, most_iterations);
  if (is_first && first == First::kPresolved) {
    Clp_initialDualSolve(solver_->model);
  } else {
    Clp_dual(solver_->model, 0);
  }
  const double* found = Clp_dualRowSolution(solver_->model);
  multipliers_.assign(found, found + rows());
  for (std::size_t r = 0; r < rows(); ++r) {
    const double limit = multipliers_[r] > 0 ? row_low_[r] : row_high_[r];
    if (limit <= -kUnlimited || limit >= kUnlimited) multipliers_[r] = 0;  // of the wrong sign
  }
  return weak_duality();
}

bool LinearProgramme::is_solved() const { return solver_ && Clp_status(solver_->model) == 0; }

double LinearProgramme::value(int variable) const {
  THERMOCLINE_CHECK(is_solved(), "a solver that was stopped has no solution");
  return Clp_primalColumnSolution(solver_->model)[variable];
}

double LinearProgramme::weak_duality() const {
  double bound = 0;
  for (std::size_t r = 0; r < rows(); ++r) {
    if (multipliers_[r] != 0) bound += multipliers_[r] * (multipliers_[r] > 0 ? row_low_[r] : row_high_[r]);
  }
  for (std::size_t v = 0; v < variables(); ++v) {
    double reduced = cost_[v];
    for (int i = columns_->start[v]; i < columns_->start[v + 1]; ++i) {
      const auto at = static_cast<std::size_t>(i);
      reduced -= multipliers_[static_cast<std::size_t>(columns_->row[at])] * columns_->weight[at];
    }
    bound += reduced * (reduced > 0 ? low_[v] : high_[v]);
  }
  return bound;
}

}  // namespace thermocline
