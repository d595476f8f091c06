/** Our side of the comparison with published code: methods on rows of a file of doubles. */
import { readFile } from 'node:fs/promises';
import { findMethod } from '../../store/evaluate/methods/find.ts';
import { runMethod } from '../../store/evaluate/methods/run.ts';
import { serve, timed } from './lines.ts';

type Question = { readonly case: string; readonly file: string; readonly group: number; readonly length: number };
/** What is asked of one method and how its answer reads as a column. */
type Asked = {
  readonly method: string;
  readonly inputs: readonly Readonly<Record<string, unknown>>[];
  readonly column: (outputs: readonly unknown[]) => number[];
};

const only = (outputs: readonly unknown[]): number[] => outputs[0] as number[];

/** Rows in groups one after the other, as every judge reads them. */
const ASKED: Readonly<Record<string, (values: readonly number[], question: Question) => Asked>> = {
  grpo: grouped('grpo_advantage'),
  rloo: grouped('rloo_advantage'),
  // TRL has no names of groups: they are known by place, which is a number here.
  trl: (values, { group }) => ({
    method: 'trl_advantage',
    inputs: [{ group: values.map((_, row) => Math.floor(row / group)), reward: values }],
    column: only,
  }),
  drmas: (values, { group }) => ({
    method: 'drmas_advantage',
    inputs: [{ steps: steps(values, group) }],
    column: only,
  }),
  multiagent: (values, { group }) => ({
    method: 'multiagent_grpo_advantage',
    inputs: [{ steps: steps(values, group) }],
    column: only,
  }),
  at_grpo: (values, { group }) => ({
    method: 'at_grpo_advantage',
    inputs: [{ steps: values.map((reward, row) => ({ env: Math.floor(row / group), turn: 0, agent: 0, reward })) }],
    column: only,
  }),
  whiten: (values) => ({ method: 'masked_whiten', inputs: [{ values, mask: values.map(() => 1) }], column: only }),
  // Rewards and values of a sequence stand one after the other.
  gae: (values, { length }) => ({
    method: 'gae',
    inputs: Array.from({ length: values.length / length / 2 }, (_, row) => ({
      rewards: values.slice(2 * row * length, (2 * row + 1) * length),
      values: values.slice((2 * row + 1) * length, (2 * row + 2) * length),
      mask: new Array<number>(length).fill(1),
      gamma: 1,
      lambda: 0.95,
    })),
    column: (outputs) => (outputs as { returns: number[] }[]).flatMap(({ returns }) => returns),
  }),
};

function grouped(method: string) {
  return (values: readonly number[], { group }: Question): Asked => ({
    method,
    inputs: [{ group: values.map((_, row) => `group ${Math.floor(row / group)}`), reward: values }],
    column: only,
  });
}

/** Two agents by turns in each trajectory of two steps. */
function steps(values: readonly number[], group: number) {
  return values.map((reward, row) => ({
    query: `query ${Math.floor(row / 2 / group)}`,
    traj: `trajectory ${Math.floor(row / 2)}`,
    agent: row % 2 === 0 ? 'solver' : 'verifier',
    reward,
  }));
}

await serve({
  /** The function alone and, beside it, the method through its door, which checks every number of input and answer. */
  async judge(question: Question) {
    const bytes = await readFile(question.file);
    const values = Array.from(new Float64Array(bytes.buffer, bytes.byteOffset, bytes.length / 8));
    const { method: name, inputs, column } = ASKED[question.case]!(values, question);
    const method = findMethod(name);
    const [, checked] = await timed(async () => inputs.map((input) => runMethod(method, input)));
    const plain = inputs.map((input) => split(input, Object.keys(method.params as object)));
    const [outputs, alone] = await timed(async () =>
      plain.map(({ data, given }) => method.run(data, { ...(method.params as object), ...given })),
    );
    return { values: column(outputs), ...alone, checked };
  },
});

function split(input: Readonly<Record<string, unknown>>, names: readonly string[]) {
  const entries = Object.entries(input);
  return {
    data: Object.fromEntries(entries.filter(([name]) => !names.includes(name))),
    given: Object.fromEntries(entries.filter(([name]) => names.includes(name))),
  };
}
