# SPDX-License-Identifier: Apache-2.0
# A run of `vit` or `decoder` -> its line of formats.csv; without one (cell null): the header. Perplexity is of bytes.
if $cell == null then "set,norm,format,recipe,seed,steps,diverged,training_loss,test_loss,test_accuracy,test_perplexity" else
  ($line | map(select(.type == "epoch")) | last // {}) as $last | ($code | rtrimstr("\n") == "4") as $diverged
  | $cell[0] | [.set, .norm, .format, .recipe, .seed, ($last.steps // ""), $diverged]
    + (if $diverged then ["", "", "", ""] else [$last.training_loss, $last.test_loss, $last.test_accuracy, ($last.test_perplexity // "")] end)
  | map(tostring) | join(",") end
