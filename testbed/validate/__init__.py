"""Validation: does the theory describe the twin, and the twin the cluster?

``testbed validate`` runs the built-in suite; from Python:

    >>> from testbed.validate import validate
    >>> result = validate(["random", "power-of-d"], quick=True, on=["twin"])
    >>> result.passed, result["power-of-d"].fit.extrapolation

A case is a scenario and what must be true of it (testbed.validate.case). Its tests, and where their tolerances come
from, are in testbed.validate.judging and told in testbed/docs/validation.md.
"""

from testbed.validate.case import Case
from testbed.validate.reading import cases_of, chosen
from testbed.validate.result import CaseResult, Finding, Validation
from testbed.validate.suite import built_in
from testbed.validate.validating import validate

__all__ = ["Case", "CaseResult", "Finding", "Validation", "built_in", "cases_of", "chosen", "validate"]
