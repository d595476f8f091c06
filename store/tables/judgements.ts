/** What methods said. Their rows are recomputed from what each judge.completed event says. */
import { group, table } from './table.ts';

export const judgings = table('judgings', 'Which methods judged which episodes.', {
  keys: { judge_id: 'text' },
  groups: [
    group('judge.completed', {
      columns: {
        methods: 'json not null',
        episodes: 'json not null',
        judged_at: ['timestamptz', 'event.time'],
      },
    }),
  ],
});

export const judgedMethods = table('judged_methods', 'Methods with version and parameters, each named once.', {
  keys: { method_key: 'text' },
  also: {
    method: ['text not null', 'its name'],
    version: ['integer not null', 'its version'],
    kind: ['text not null', 'what it computes'],
    params: ['json not null', 'its parameters'],
  },
});

const VALUE = {
  value: ['double precision', 'the number'],
  reason: ['text', 'why there is no number, or what it rests on'],
  detail: ['json', 'what does not fit into one number'],
} as const;
const OF_STEP = { episode_id: 'text', step_id: 'text', method_key: 'text' } as const;

export const verdicts = table('verdicts', 'Keep or drop, and why.', {
  keys: OF_STEP,
  also: {
    keep: ['boolean', 'whether to keep it; null where the method cannot say'],
    reason: ['text', 'why'],
    detail: VALUE.detail,
  },
});
export const scores = table('scores', 'Numbers about a trajectory or a group, by its key.', {
  keys: { key: 'text', method_key: 'text' },
  also: VALUE,
});
export const rewards = table('rewards', 'Rewards that a method computed.', { keys: OF_STEP, also: VALUE });
export const credits = table('credits', 'A number for each step.', { keys: OF_STEP, also: VALUE });
export const blames = table('blames', 'Who is to blame for a failure; rank 0 is the first.', {
  keys: { episode_id: 'text', method_key: 'text', rank: 'integer' },
  also: {
    agent_id: ['text', 'the member'],
    step_id: ['text', 'the step'],
    entry: ['integer', 'the entry of the trajectory'],
    value: ['double precision', 'its share'],
    reason: ['text', 'why'],
    detail: VALUE.detail,
  },
});
