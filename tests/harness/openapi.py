# SPDX-License-Identifier: Apache-2.0
"""docs/openapi.yaml, read: its operations, and answers checked against it."""


import jsonschema
import yaml

from harness.program import ROOT

FILE = ROOT / "docs" / "openapi.yaml"
DOCUMENT = yaml.load(FILE.read_text(), yaml.CSafeLoader)  # read by each process of a run
RESOLVER = jsonschema.RefResolver.from_schema(DOCUMENT)
OPERATIONS = {(method.upper(), path): operation for path, item in DOCUMENT["paths"].items()
              for method, operation in item.items() if method != "parameters"}


def resolved(part):
    return RESOLVER.resolve(part["$ref"])[1] if "$ref" in part else part


def validate(value, schema):
    jsonschema.Draft202012Validator(schema, resolver=RESOLVER).validate(value)


def body_schema(operation):
    return operation["requestBody"]["content"]["application/json"]["schema"]
