# SPDX-License-Identifier: Apache-2.0
# Rows of formats.csv in the order in which tables and pictures have them, whatever finished first.
def place($list): . as $one | $list | index($one) // length;
def in_order: sort_by([(.set | place(["cifar10", "tinyshakespeare"])), (.norm | place(["ln"])),
    (.format | place(["fp32", "bf16", "int8", "W6A6G6", "W4A4G4"])), (.seed | tonumber)]);
