#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: short
# docs/records.md says what the tables of src/record say.
if "$QS_BUILD/tests/house_records" < "$QS_SOURCE/docs/records.in.md" | diff "$QS_SOURCE/docs/records.md" - ; then
    exit 0
fi
echo "docs/records.md is not what the tables say: run tools/records-doc.sh $QS_BUILD"
exit 1
