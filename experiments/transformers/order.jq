# SPDX-License-Identifier: Apache-2.0
# Rows of formats.csv in the order in which tables and pictures have them, whatever finished first.
def place($list): . as $one | $list | index($one) // length;
def of_images: startswith("cifar10-"); # and the number of epochs
def in_order: sort_by([(.set | if of_images then [0, (ltrimstr("cifar10-") | tonumber)] else [1, place(["tinyshakespeare"])] end),
    (.norm | place(["ln"])), (.format | place(["fp32", "bf16", "int8", "W6A6G6", "W4A4G4"])), (.seed | tonumber)]);
