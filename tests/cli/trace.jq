# SPDX-License-Identifier: Apache-2.0
# What a trace breaks of the trace event format (JSON object form), a line each; a good one gives no line. Our traces hold complete events
# (ph X) and metadata (ph M) alone. jq -r -f trace.jq FILE

# Times are microseconds. Measured ones are printed with three decimals: the end of an event, a sum of two, is off by 0.001 at most, the
# next begin by 0.0005. Predicted ones have 12 significant digits, which matters from 1e8 on.
def rounding($time): 0.0015 + 2e-11 * $time;

def whole: type == "number" and . >= 0 and . == floor;
def time: type == "number" and . >= 0 and . < infinite;
# The rules that hold event by event: a text for each that is broken.
def broken:
    (if .ph == "X" or .ph == "M" then empty else "ph must be X or M" end),
    (if (.name | type) == "string" and .name != "" then empty else "name must be text" end),
    (if .pid | whole then empty else "pid must be an integer, 0 or more" end),
    (if .tid | whole then empty else "tid must be an integer, 0 or more" end),
    (if (.args | type) == "object" then empty else "args must be an object" end),
    (if .ph != "X" or (.ts | time) then empty else "ts of a complete event must be a number, 0 or more" end),
    (if .ph != "X" or (.dur | time) then empty else "dur of a complete event must be a number, 0 or more" end),
    (if .ph != "M" or (.name | IN("process_name", "thread_name") | not) or (.args.name? | type == "string" and . != "") then empty
        else "args.name must be text" end);

def names($what; key): [.[] | select(.ph == "M" and .name == $what) | key];
def unnamed:
    names("process_name"; .pid) as $processes | names("thread_name"; [.pid, .tid]) as $threads |
    ($processes | group_by(.)[] | select(length > 1) | "process \(.[0]) is named \(length) times"),
    ($threads | group_by(.)[] | select(length > 1) | "thread \(.[0][1]) of process \(.[0][0]) is named \(length) times"),
    (map(.pid) | unique[] | . as $pid | select($processes | index([$pid]) | not) | "process \($pid) has no process_name"),
    (map([.pid, .tid]) | unique[] | . as $thread | select($threads | index([$thread]) | not) |
        "thread \($thread[1]) of process \($thread[0]) has no thread_name");

def overlaps:
    map(select(.ph == "X")) | group_by([.pid, .tid])[] | sort_by([.ts, .dur]) | [.[:-1], .[1:]] | transpose[] |
    (.[0].ts + .[0].dur) as $until | select(.[1].ts < $until - rounding($until)) |
    "process \(.[0].pid), thread \(.[0].tid): \(.[1].name) begins at \(.[1].ts), before \(.[0].name) ends at \($until)";

if type != "object" or (.traceEvents | type) != "array" then "traceEvents must be an array"
elif [.traceEvents[] | select(.ph? == "X")] == [] then "there is no complete event"
else
    [.traceEvents | to_entries[] | .key as $at |
        if (.value | type) != "object" then "traceEvents[\($at)] must be an object" else "traceEvents[\($at)]: \(.value | broken)" end] as $lines |
    # Tracks can be told apart only where every event is one.
    if $lines != [] then $lines[] else .traceEvents | (unnamed, overlaps) end
end
