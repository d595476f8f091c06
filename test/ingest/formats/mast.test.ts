import { describe, expect, it } from 'vitest';
import { pythonLiterals } from '../../../ingest/formats/kit/python-literals.ts';
import { expectBelow } from '../../support/measured.ts';
import { known, read } from './support/convert.ts';

const LOG = [
  `{'content': ['How long?'], 'role': 'user', 'name': 'user'}`,
  `{'content': ["it's", 'two\\n'], 'role': 'assistant', 'name': 'solver', 'tool': None}`,
  `{'content': 'exitcode: 0', 'role': 'user', 'name': 'Computer_terminal'}`,
].join('\n');
const row = (trajectory: unknown, mast_annotation: unknown = { '1.1': 0, '2.6': 1, '3.2': null }) => ({
  mas_name: 'AG2',
  llm_name: 'm',
  benchmark_name: 'b',
  trace_id: 0,
  trace: { key: 'k', index: 0, trajectory },
  mast_annotation,
});

describe('a labelled trace of MAST', () => {
  it('of literals is read entry by entry, people and terminals apart from agents', () => {
    expect(known(row(LOG))).toBe('mast');
    const { of, refused } = read('mast', row(LOG));
    expect(refused).toEqual([]);
    expect(of('generation.completed')).toMatchObject([
      { agent_id: 'solver', choices: [{ content: "it's\ntwo\n" }], unmapped: { role: 'assistant', tool: null } },
    ]);
    expect(of('message.sent').map(({ from, content }) => [from, content])).toEqual([['user', 'How long?']]);
    expect(of('environment.observed').map(({ content }) => content)).toEqual(['exitcode: 0']);
    expect(of('episode.started')[0]).toMatchObject({
      tags: { mas_name: 'AG2', trace_id: 0 },
      unmapped: { trace: { key: 'k', index: 0 } },
    });
  });

  it('of any other form is one step of nobody', () => {
    for (const text of ['[2026 INFO] chat: hello', "{'content': 'cut", "{'role': 'user'}", 'yaml: 1']) {
      const { of } = read('mast', row(text));
      expect(of('generation.completed')).toMatchObject([{ choices: [{ content: text }], flags: ['unsegmented'] }]);
      expect(of('episode.started')[0]!.flags).toEqual(['no_token_ids', 'unsegmented']);
      expect(of('agent.defined')).toEqual([]);
    }
  });

  it('of white space before anything else is read at once', () => {
    const text = `${' '.repeat(500_000)}x`;
    const began = performance.now();
    expect(read('mast', row(text)).of('generation.completed')).toMatchObject([{ choices: [{ content: text }] }]);
    expectBelow(performance.now() - began, 5000);
  });

  it('without an entry has no step and is flagged incomplete', () => {
    for (const text of ['', ' \n', '[]', '{ }']) {
      const { of, refused } = read('mast', row(text));
      expect(refused).toEqual([]);
      expect(of('generation.completed')).toEqual([]);
      expect(of('episode.started')[0]!.flags).toEqual(['no_token_ids', 'incomplete']);
      expect(of('feedback.recorded').length).toBeGreaterThan(0);
    }
  });

  it('takes each code that is one as a failure of the episode, and keeps the others', () => {
    const { of } = read('mast', row(LOG));
    expect(of('feedback.recorded')).toMatchObject([
      {
        kind: 'failure',
        name: 'FM-2.6',
        label: 'Reasoning-Action Mismatch',
        target: { kind: 'episode' },
        taxonomy: { name: 'MAST' },
      },
    ]);
    expect(of('episode.started')[0]!.unmapped).toMatchObject({ mast_annotation: { '3.2': null } });
  });

  it('of people is labelled by a majority, by the name of the mode and never by its number', () => {
    const vote = (mode: string, ...votes: (boolean | null)[]) => ({
      'failure mode': mode,
      ...Object.fromEntries(votes.map((v, i) => [`annotator_${i + 1}`, v])),
    });
    const human = {
      round: 'Round 1',
      mas_name: 'AG2',
      benchmark_name: 'b',
      trace_id: 0,
      trace: JSON.stringify({
        trajectory: [
          { content: 'How long?', role: 'user', name: 'user' },
          { content: '20', role: 'assistant', name: 'solver' },
        ],
      }),
      annotations: [
        vote('9.9 Step repetition\n\nText.', true, true, false),
        vote('1.1 Something of old', true, null, null),
        vote('3.1 Premature Termination', true, false, null),
      ],
    };
    const { of, refused } = read('mast', human);
    expect(refused).toEqual([]);
    expect(of('feedback.recorded').map(({ name, label, confidence, by }) => [name, label, confidence, by])).toEqual([
      ['FM-1.3', 'Step Repetition', 2 / 3, 'human'],
      ['Something of old', 'Something of old', 1, 'human'],
    ]);
    expect(of('generation.completed')).toMatchObject([{ agent_id: 'solver' }]);
  });

  it('is refused where the verdicts or the trace have another shape', () => {
    expect(read('mast', row(LOG, { '1.1': 'yes' })).refused).toEqual(['bad_type mast_annotation.1.1']);
    expect(read('mast', { ...row(LOG), trace: 'gone' }).refused).toEqual(['bad_type trace']);
    expect(read('mast', row(3)).refused).toEqual(['bad_type trace.trajectory']);
    const human = { mas_name: 'a', trace: 'x', annotations: [{ 'failure mode': 'x', annotator_1: 'yes' }] };
    expect(read('mast', human).refused).toEqual(['bad_type annotations[0].annotator_1']);
  });
});

describe('literals of Python', () => {
  it('are read as their values', () => {
    const text = String.raw`{'a': [1, -2.5, 1e3, True, None], "b": ('x' "y", r'\n', '\x41\u00e9\101', ), 3: {}} '''it's
two''' -1`;
    expect(pythonLiterals(text)).toEqual([
      { a: [1, -2.5, 1000, true, null], b: ['xy', '\\n', 'AéA'], 3: {} },
      "it's\ntwo",
      -1,
    ]);
    expect(pythonLiterals('')).toEqual([]);
    expect(pythonLiterals('12345678901234567890')).toEqual(['12345678901234567890']);
  });

  it('are not what holds anything else', () => {
    for (const text of [
      'open("x")',
      "{'a' 1}",
      "'cut",
      '[1, 2',
      "{'a': 1]",
      'x',
      "'a\nb'",
      '['.repeat(100),
      "'\\Uffffffff'",
    ]) {
      expect(pythonLiterals(text)).toBeNull();
    }
  });
});
