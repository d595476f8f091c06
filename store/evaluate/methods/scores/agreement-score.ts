/**
 * How far the answers to one query agree.
 *
 * Source: ours, after the inter-consistency idea of MAS-GPT (arXiv 2503.03686); not from the paper.
 * The share is of all answers, a null one included, so that a team that often fails to answer does not look united.
 */

import { Type } from 'typebox';
import { groupBy } from '../../../../ingest/events/group-by.ts';
import { canonicalAnswer } from '../../consistency/canonical-answer.ts';
import { groupOf } from '../../judging/facts.ts';
import { score } from '../../judging/judgement.ts';
import { isChoice } from '../../judging/messages.ts';
import { method } from '../method.ts';
import { nullable } from '../shapes.ts';

type Agreement = { readonly score: number; readonly majority: string | null };

export const agreementScore = method({
  name: 'agreement_score',
  kind: 'score',
  source: 'ours, after MAS-GPT (arXiv 2503.03686)',
  version: 1,
  summary: 'Share of the most frequent answer among all answers, null ones included; the first seen wins a tie.',
  input: Type.Object({ answers: Type.Array(nullable(Type.String())) }),
  run: ({ answers }): Agreement => {
    let majority: string | null = null;
    let most = 0;
    for (const [answer, same] of groupBy(answers, (one) => one)) {
      if (answer !== null && same.length > most) {
        majority = answer;
        most = same.length;
      }
    }
    return { score: most === 0 ? 0 : most / answers.length, majority };
  },
  judged: {
    /** Two spellings of one answer are one answer, so that they can be counted together. */
    rows: ({ episodes }, ask) =>
      [...groupBy(episodes, groupOf)].map(([group, members]) => {
        const answers = members.map((member) =>
          member.answer === null ? null : canonicalAnswer(member.answer, { choices: isChoice(member) }),
        );
        const output = ask.run({ answers });
        return answers.every((answer) => answer === null)
          ? score(`g/${group}`, null, 'no_answers', output)
          : score(`g/${group}`, output.score, null, output);
      }),
  },
});
