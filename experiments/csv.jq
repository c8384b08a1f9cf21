# SPDX-License-Identifier: Apache-2.0
# What summaries of results need. A field of our CSV files never holds a comma, a quote or a line break.

# Text of a CSV file with a header -> a list of objects; all values are texts.
def csv_rows: split("\n") | map(select(length > 0) | split(",")) | (.[0] // []) as $names | .[1:] | map([$names, .] | transpose | map({key: .[0], value: .[1]}) | from_entries);

def numbers(name): map(.[name] | select(. != "") | tonumber);
def mean: if length == 0 then null else add / length end;
def median: if length == 0 then null else sort | (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2 end;
# Sample standard deviation.
def deviation: if length < 2 then 0 else mean as $m | (map(. - $m | . * .) | add / (length - 1) | sqrt) end;
# With a fixed number of decimals, as text.
def fixed($digits): if . == null then "-" else pow(10; $digits) as $scale | (. * $scale | round) as $n | (if $n < 0 then "-" else "" end) as $sign
    | ($n | fabs | tostring) as $text | if $digits == 0 then $sign + $text
      else (("0" * ([$digits + 1 - ($text | length), 0] | max)) // "") + $text | $sign + .[: length - $digits] + "." + .[length - $digits :] end end;
# Two or three significant digits for figures of any size.
def brief: if . == null then "-" elif . == 0 then "0" else (fabs | log10 | floor) as $e | (. / pow(10; $e) * 100 | round / 100 | tostring) as $m
    | if $e >= -2 and $e <= 3 then (. * pow(10; 2 - $e) | round / pow(10; 2 - $e) | tostring) else "\($m)e\($e)" end end;
# Mean ± standard deviation as text; a single value has none.
def spread($scale; $digits): if length == 0 then "" else (mean * $scale | fixed($digits)) + (if length > 1 then " ± " + (deviation * $scale | fixed($digits)) else "" end) end;
# Distinct values of f, in the order in which they come.
def first_seen(f): reduce .[] as $one ([]; if index([$one | f]) then . else . + [$one | f] end);
def row: "| " + join(" | ") + " |";
