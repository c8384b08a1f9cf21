# new names, made the ones that expected.tsv was written with
