"""Validation: does the theory describe the twin, and the twin the cluster?

``testbed validate`` runs the built-in suite; from Python:

    >>> from testbed.studies.validate import validate
    >>> result = validate(["random", "power-of-d"], quick=True, on=["twin"])
    >>> result.passed, result["power-of-d"].fit.extrapolation

A case is a scenario and what must be true of it (testbed.studies.validate.case). Its tests are in
testbed.studies.validate.judging; testbed/docs/validation.md explains them and their tolerances.
"""

from testbed.studies.validate.case import Case
from testbed.studies.validate.choosing import cases_of, chosen
from testbed.studies.validate.findings import CaseResult, Finding
from testbed.studies.validate.result import Validation
from testbed.studies.validate.suite import built_in
from testbed.studies.validate.validating import validate

__all__ = ["Case", "CaseResult", "Finding", "Validation", "built_in", "cases_of", "chosen", "validate"]
