"""Random single stages for each generator, held against their formulas: `make stages N=2000`.

Models exercise what models usually have. A generator has ways that no usual model takes: vectors along an
axis that slides, a last tile of one point, a window that lies in its padding. So stages are drawn for one
generator alone (`windows`, `products`, `maps`, `cells`, `chains`), stored in any way they could be
(`drawn`), and given to it directly (`generators`). Two draw for all of them: `tails` puts any maps behind any
stage, and `layers` takes what was drawn through the steps from fusion to lowering.

What a generator writes must equal its formulas to the last bit, in the loop evaluator and as C (`judge`);
where a target's instructions are not those of this machine the evaluator runs its loops. A `survey` counts
what was drawn, served and reached; a failing stage is drawn again with simpler choices (`dice`) and printed
as one line that repeats it.

A generator gets its stages so:

1. A function that draws: `def sorted_rows(dice, target) -> Drawn`. It takes every extent, stride, layout and
   activation from `dice`, 0 being the simplest choice, names what comes from outside by `dice.tensor`, and
   raises Impossible where what it drew is no stage. An operator's own definition (`ingot.ops`) is the best
   source of formulas: call it with a `Builder`, then `windows.stored` does the rest.
2. A line in `generators.GENERATORS`: the function, how the generator is called (`one` does for those of
   single stages), its files below `src/ingot/loops/kernels`, the targets it is for, and which share of
   what is drawn it must serve at least: one that declines what it is meant for is not tested.
3. `python -m tests.stages NAME 500` until nothing is wrong and all lines are reached. A line that no stage
   can reach gets its reason in `reasons`. What was wrong becomes a row of `tests/ops`, or a case of the tests
   of its generator, and is mended.
"""
