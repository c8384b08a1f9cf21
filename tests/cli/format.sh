#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: short
# qsync format: facts and rounding, text and JSON, to the letter.
. "$(dirname "$0")/check.inc"

expect 0 format bf16 << 'END'
bf16: float, 16 bits
exponent bits 8, mantissa bits 7, bias 0, specials ieee
max 3.38953139e+38, min normal 1.17549435e-38, min subnormal 9.18354962e-41, epsilon 0.0078125
END
expect 0 format int8 << 'END'
int8: integer, 8 bits
max 127 (symmetric)
END
expect 0 format 'fp(4,3,4)' 1.1 -1.1 1000 --rounding nearest-even << 'END'
1.10000002 -> 1.125  code 0x59
-1.10000002 -> -1.125  code 0xd9
1000 -> 30  code 0x7f  overflow
END
expect 0 format e4m3fn --rounding floor -- 1.1 -1.1 << 'END'
1.10000002 -> 1  code 0x38
-1.10000002 -> -1.125  code 0xb9
END
expect 0 format 'fp(5,2,0)' 200000 1e-9 --overflow inf << 'END'
200000 -> inf  code 0x7f  overflow
9.99999972e-10 -> 0  code 0x00  underflow
END
expect 0 format fp16 65520 --overflow saturate << 'END'
65520 -> 65504  code 0x7bff  overflow
END
expect 0 format uint4 << 'END'
uint4: integer, 4 bits
max 15 (from 0)
END
expect 0 format fp16 --json 65520 << 'END'
{
  "format": "fp16",
  "kind": "float",
  "bits": 16,
  "exponent_bits": 5,
  "mantissa_bits": 10,
  "bias": 0,
  "specials": "ieee",
  "max": 65504.0,
  "min_normal": 6.103515625e-5,
  "min_subnormal": 5.96046447754e-8,
  "epsilon": 0.0009765625,
  "rounding": "nearest-even",
  "overflow": "default",
  "values": [
    {
      "x": 65520.0,
      "value": "inf",
      "code": 31744,
      "overflow": true,
      "underflow": false
    }
  ]
}
END
"$QSYNC" format mxfp4 > "$work/facts" || fail "facts of a block format"
grep -q 'blocks of 32 values, 4.25 bits each' "$work/facts" || { cat "$work/facts"; fail "facts of a block format"; }
"$QSYNC" format mxfp4 1 2.1 -30 100 > "$work/block" || fail "values of a block"
printf '1 -> 0  scale 16\n2.0999999 -> 0  scale 16\n-30 -> -32  scale 16\n100 -> 96  scale 16\n' | cmp - "$work/block" || { cat "$work/block"; fail "values of a block"; }
"$QSYNC" format nvfp4 1 2.1 -30 100 --json > "$work/block" || fail "values of a block as JSON"
jq -e '.kind == "blocks" and .of_tensor and .container == "fp32" and (.values | length) == 4 and (.values[3].value - 100 | fabs) < 1e-4' "$work/block" > /dev/null ||
    { cat "$work/block"; fail "values of a block as JSON"; }
refuse 2 "block '33'" format 'mx(e4m3,33)'
refuse 2 'always saturate' format mxfp8 --overflow inf 1
refuse 2 'fp9' format fp9
refuse 2 'abc: not a number' format bf16 abc
refuse 2 'saturate' format bf16 --overflow up 1
refuse 2 'always saturates' format int8 --overflow inf 1
refuse 2 'nearest-even' format bf16 --rounding up 1
finish
