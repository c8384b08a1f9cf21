#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Writes docs/records.md: docs/records.in.md with the tables of fields from src/record. tools/records-doc.sh [BUILD FOLDER]
set -eu
cd "$(dirname "$0")/.."
"${1:-build/dev}/tests/house_records" < docs/records.in.md > docs/records.md.new
mv docs/records.md.new docs/records.md
