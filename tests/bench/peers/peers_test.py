"""What the comparison makes of results, without measuring: python3 -m unittest peers_test"""

import unittest

import cells
import table
from contender import Contender, Outcome

DENSE = Contender("kvplane", "dense")
FAST, SLOW, OTHER = Contender("peer", "fast"), Contender("peer", "slow"), Contender("other", "only")


def results(rounds, names="pp512"):
    made = table.Results(cells.parse(names))
    for number, measured in enumerate(rounds):
        for contender, rates in measured:
            made.add(number, contender, Outcome(rates=rates))
    return made


class Cells(unittest.TestCase):
    def test_names_say_tokens_depth_and_sequences(self):
        found = [(c.prefill, c.tokens, c.depth, c.sequences) for c in cells.parse("pp512,tg32,tg8@4096,tg64x4")]
        self.assertEqual(found, [(True, 512, 0, 1), (False, 32, 0, 1), (False, 8, 4096, 1), (False, 64, 0, 4)])

    def test_what_is_no_cell_is_refused(self):
        for name in ("", "pp", "pp0", "tg", "tg8x0", "pp8@4", "tg8x2@4", "tg8@4x2", "pp512,"):
            with self.assertRaises(SystemExit, msg=name):
                cells.parse(name)


class Ratios(unittest.TestCase):
    def test_are_medians_over_the_rounds_of_the_ratio_to_the_best_peer(self):
        made = results([[(DENSE, {"pp512": [200]}), (FAST, {"pp512": [100]}), (OTHER, {"pp512": [50]})],
                        [(DENSE, {"pp512": [300]}), (FAST, {"pp512": [100]}), (OTHER, {"pp512": [150]})],
                        [(DENSE, {"pp512": [900]}), (FAST, {"pp512": [100]}), (OTHER, {"pp512": [50]})]])
        self.assertEqual(made.ratio(DENSE, ["peer", "other"], made.cells[0]), 2)

    def test_leave_out_rounds_that_one_side_lacks(self):
        made = results([[(DENSE, {"pp512": [200]}), (FAST, {})],
                        [(DENSE, {"pp512": [300]}), (FAST, {"pp512": [100]})]])
        self.assertEqual(made.ratio(DENSE, ["peer"], made.cells[0]), 3)
        self.assertIsNone(made.ratio(DENSE, ["other"], made.cells[0]))

    def test_of_a_round_the_median_of_its_runs_counts(self):
        made = results([[(DENSE, {"pp512": [1, 200, 1000]}), (FAST, {"pp512": [100]})]])
        self.assertEqual(made.ratio(DENSE, ["peer"], made.cells[0]), 2)


class Settings(unittest.TestCase):
    def test_the_best_is_chosen_cell_by_cell(self):
        made = results([[(FAST, {"pp512": [100], "tg8": [10]}), (SLOW, {"pp512": [50], "tg8": [20]})]], "pp512,tg8")
        self.assertEqual([made.best("peer", cell) for cell in made.cells], [FAST, SLOW])

    def test_one_that_is_nowhere_near_the_best_gets_no_more_rounds(self):
        made = results([[(DENSE, {"pp512": [1]}), (FAST, {"pp512": [100]}), (SLOW, {"pp512": [89]})]])
        self.assertEqual(made.worth_more_rounds([DENSE, FAST, SLOW]), [DENSE, FAST])
        made = results([[(FAST, {"pp512": [100], "tg8": [10]}), (SLOW, {"pp512": [50], "tg8": [9]})]], "pp512,tg8")
        self.assertEqual(made.worth_more_rounds([FAST, SLOW]), [FAST, SLOW])

    def test_one_that_was_left_out_is_not_the_best_because_the_others_slowed_down(self):
        made = results([[(FAST, {"pp512": [100]}), (SLOW, {"pp512": [80]})], [(FAST, {"pp512": [40]})],
                        [(FAST, {"pp512": [40]})]])
        self.assertEqual(made.best("peer", made.cells[0]), FAST)


class Markdown(unittest.TestCase):
    def test_has_a_row_for_each_cell_and_says_who_is_absent_or_failed(self):
        made = results([[(DENSE, {"pp512": [200], "tg8x4": [40]}), (FAST, {"pp512": [100]})]], "pp512,tg8x4")
        made.failed["peer fast"] = {"tg8x4": "it ended"}
        text = table.markdown(made, {"other": "no interpreter given"}, {"threads": 2})
        self.assertIn("| prefill 512 | 200 | **2.00** | 100 fast |", text)
        self.assertIn("| decode at 0, 4 sequences | 40.0 |  |  |", text)
        self.assertIn("- other: absent, no interpreter given", text)
        self.assertIn("- peer fast: no tg8x4: it ended", text)


if __name__ == "__main__":
    unittest.main()
