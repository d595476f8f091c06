import { describe, expect, it } from 'vitest';
import { sha256 } from '../../../ingest/events/json.ts';
import { known, read } from './support/convert.ts';

const PROGRAM = 'class MAS():\n    def forward(self, taskInfo):\n        return taskInfo';
const ROW = {
  query: 'How long?',
  gt: '20',
  tag: ['math'],
  source: 'S',
  masgpt_generated: 'Two roles.',
  mas_str: PROGRAM,
  extract_flag: true,
};

describe('a generation of MAS-GPT', () => {
  it('is one step of the generator, its program an artifact that is kept and not run', () => {
    expect(known(ROW)).toBe('mas-gpt');
    const { of, bodies } = read('mas-gpt', ROW);
    expect(of('generation.completed')).toMatchObject([{ agent_id: 'generator', choices: [{ content: 'Two roles.' }] }]);
    const [, program] = of('artifact.attached');
    expect(program).toMatchObject({ role: 'code', sha256: sha256(PROGRAM), target: { kind: 'step' } });
    expect(program!.flags).toBeUndefined();
    expect(bodies).toEqual([PROGRAM]);
    expect(of('task.defined')).toMatchObject([{ ground_truth: '20', tags: { tag: ['math'], source: 'S' } }]);
  });

  it('marks a program that is the fallback, not the work of the model', () => {
    expect(read('mas-gpt', { ...ROW, extract_flag: false }).of('artifact.attached')[1]!.flags).toEqual([
      'fallback_code',
    ]);
  });

  it('meets the row of its inference in one episode, which only then has ended', () => {
    const [made, ran] = [read('mas-gpt', ROW), read('mas-gpt', { ...ROW, generated_output: '20' })];
    const facts = (one: typeof made) =>
      one.drafts.filter(({ name }) => name === 'generation.completed' || name === 'task.defined');
    expect(facts(ran)).toEqual(facts(made));
    expect(ran.of('episode.started')[0]!.episode_id).toBe(made.of('episode.started')[0]!.episode_id);
    expect([made.of('episode.finished').length, ran.of('episode.finished')[0]!.answer]).toEqual([0, '20']);
    const other = read('mas-gpt', { ...ROW, masgpt_generated: 'Three roles.' });
    expect(other.of('episode.started')[0]!.episode_id).not.toBe(made.of('episode.started')[0]!.episode_id);
  });

  it('is refused by the field that is wrong', () => {
    expect(read('mas-gpt', { ...ROW, extract_flag: 'true' }).refused).toEqual(['bad_type extract_flag']);
    expect(read('mas-gpt', { ...ROW, query: ' ' }).refused).toEqual(['bad_type query']);
    expect(read('mas-gpt', { ...ROW, masgpt_generated: null }).refused).toEqual(['bad_type masgpt_generated']);
    expect(read('mas-gpt', { ...ROW, mas_str: [] }).refused).toEqual(['bad_type mas_str']);
  });
});
