# new names, made the ones that expected.tsv was written with
# kernels
s/own:weight_gradient:/own:taps:/g
s/own:grouped_gemm:/own:gathered:/g
# settings of operators in texts of cases: they were numbered
/[ "]sgd\/forward/ {
    s/ momentum=\([0-9]\)/ value=\1/g
    s/ weight_decay=/ value2=/g
}
/[ "]adam\/forward/ {
    s/ beta1=/ value=/g
    s/ beta2=/ value2=/g
    s/ epsilon=/ value3=/g
    s/ weight_decay=/ value4=/g
}
/[ "_]\(batch\|layer\)_norm[a-z0-9_]*\/[a-z]/ {
    s/ epsilon=/ value=/g
    s/ momentum=/ value2=/g
}
/[ "]dropout\/[a-z]/ s/ probability=/ value=/g
/[ "]relu\/[a-z]/ s/ ceiling=/ value=/g
/[ "]clip_norm\/forward/ s/ clip_norm=/ value=/g
# fields of records
s/"samples_per_second":/"images_per_second":/
