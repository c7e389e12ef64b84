# SPDX-License-Identifier: Apache-2.0
"""A JAX loss within a budget of bytes: thermocline_jax.fit() (integrations/jax/README.md)."""

from ._fit import Candidate, DoesNotFitError, Fitted, Plan, fit

__all__ = ["Candidate", "DoesNotFitError", "Fitted", "Plan", "fit"]
