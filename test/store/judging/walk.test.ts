/** The walk along what methods run over, on facts written by hand. */
import { describe, expect, it } from 'vitest';
import type { EpisodeFacts, StepFacts } from '../../../store/evaluate/judging/facts.ts';
import { credit, type Judgement } from '../../../store/evaluate/judging/judgement.ts';
import { noSteps } from '../../../store/evaluate/judging/over-episodes.ts';
import { type Over, type Units, walk } from '../../../store/evaluate/judging/walk.ts';

const episode = (episode_id: string, tags: Record<string, unknown> = {}): EpisodeFacts =>
  ({ episode_id, group_id: 'g', task_id: null, tags, reward: null, outcome: null }) as unknown as EpisodeFacts;

const step = (episode_id: string, call_id: string, copied = false): StepFacts =>
  ({ episode_id, step_id: `${call_id}/0`, call_id, chosen: null, parent_step_id: null, copied }) as StepFacts;

/** A run, one that went on from its first step, one that changed that step, and one without steps. */
const facts = {
  episodes: [
    episode('run'),
    episode('again', { replay_of: 'run' }),
    episode('changed', { replay_of: 'run', intervention: { kind: 'edit', step: 0 } }),
    episode('empty'),
  ],
  steps: [step('run', 'a'), step('run', 'b'), step('again', 'a', true), step('again', 'c'), step('changed', 'd')],
  ownRewards: false,
  reports: new Map([['run', { programs: [], tests: [], pass: [] }]]),
};

const shown = (row: Judgement): string => {
  const place = 'key' in row ? row.key : `${row.episode_id} ${row.step_id}`;
  return `${place}: ${row.reason}`;
};

function walked<O extends Over>(over: O, judge: (unit: Units[O]) => readonly Judgement[] | string): string[] {
  return walk(over, facts, { step: credit, episode: noSteps }, judge).map(shown);
}

describe('The walk of a judging', () => {
  it('along episodes judges each that has steps, and gives the others a row with the reason', () => {
    const seen: string[] = [];
    const rows = walked('episode', ({ episode: { episode_id }, steps }) => {
      seen.push(`${episode_id} ${steps.length}`);
      return 'no';
    });
    expect(seen).toEqual(['run 2', 'again 2', 'changed 1']);
    expect(rows).toEqual([
      'run a/0: no',
      'run b/0: no',
      'again a/0: no',
      'again c/0: no',
      'changed d/0: no',
      'e/empty: no_steps',
    ]);
  });

  it('along groups gives each member, and the reason to the steps of all', () => {
    const seen: string[] = [];
    const rows = walked('group', ({ group, members }) => {
      seen.push(`${group} ${members.map((member) => member.steps.length).join(' ')}`);
      return 'no';
    });
    expect(seen).toEqual(['g 2 2 1 0']);
    expect(rows.at(-1)).toBe('e/empty: no');
    expect(rows).toHaveLength(6);
  });

  it('along reports says of an episode without one that it has none', () => {
    expect(walked('report', () => [])).toEqual([
      'e/again: no_execution_matrix',
      'e/changed: no_execution_matrix',
      'e/empty: no_execution_matrix',
    ]);
    expect(walked('report', () => 'no')[0]).toBe('e/run: no');
  });

  it('along trees joins replays, leaves out what was changed, and gives a copied step no value of its own', () => {
    const seen: string[][] = [];
    const rows = walked('replay', ({ steps }) => {
      seen.push(steps.map(({ step_id }) => step_id));
      return [];
    });
    expect(seen).toEqual([['a/0', 'b/0', 'c/0']]);
    expect(rows).toEqual(['e/empty: no_steps', 'changed d/0: intervened', 'again a/0: copied']);
  });
});
