import { describe, expect, it } from 'vitest';
import { entryText, heading } from '../../api/operations/episodes/conversation.ts';
import { paint } from '../../cli/output.ts';
import type { CallEntry, Candidate } from '../../store/explore/episodes/entries.ts';

const candidate = (n: number, more: Partial<Candidate> = {}): Candidate => ({
  step_id: `c/${n}`,
  candidate: n,
  text: `answer ${n}`,
  content: null,
  chosen: null,
  finish_reason: null,
  tokens: null,
  untrainable: 'no_token_ids',
  rewards: [],
  credits: [],
  verdicts: [],
  ...more,
});
const call = (candidates: readonly Candidate[], more: Partial<CallEntry> = {}): CallEntry => ({
  kind: 'call',
  id: 'c',
  at: null,
  turn: 0,
  who: 'Solver',
  role: 'solver',
  model: 'm1',
  policy: null,
  checkpoint_id: null,
  temperature: null,
  input_tokens: 12,
  output_tokens: 3,
  latency_ms: 41.6,
  error: null,
  prompt: [{ role: 'user', sender: null, text: 'hi', content: null }],
  prompt_messages: 1,
  candidates,
  ...more,
});
const text = (entry: CallEntry) => entryText(entry, { full: false, paint }).split('\n');

describe('A call in the terminal', () => {
  it('with one candidate is its prompt and one block', () => {
    expect(text(call([candidate(0)]))).toEqual([
      'user · prompt',
      '  hi',
      '',
      'Solver · solver · m1 · 12 tokens in · 3 out · 42 ms · c/0 · not trainable: no_token_ids',
      '  answer 0',
    ]);
  });

  it('names the images and files beside a text', () => {
    const url = { artifact_id: '9f86d0', media_type: 'image/png', size: 307200 };
    const content = [
      { type: 'text', content: 'See.' },
      { type: 'image_url', image_url: { url } },
    ];
    const shown = text(call([candidate(0)], { prompt: [{ role: 'user', sender: null, text: 'See.', content }] }));
    expect(shown.slice(0, 3)).toEqual(['user · prompt', '  See.', '  [image/png, 307200 bytes, artifact 9f86d0]']);
  });

  it('says in words which tools an answer or a prompt without text calls', () => {
    const ask = { type: 'tool_call', id: 'c1', name: 'find', arguments: { city: 'Oslo' } };
    const content = [{ type: 'reasoning', content: 'Where?' }, ask];
    const prompt = [{ role: 'assistant', sender: null, text: null, content: { parts: [ask], content_absent: true } }];
    expect(text(call([candidate(0, { text: null, content })], { prompt }))).toEqual([
      'assistant · prompt',
      '  calls find {"city":"Oslo"}',
      '',
      'Solver · solver · m1 · 12 tokens in · 3 out · 42 ms · c/0 · not trainable: no_token_ids',
      '  Where?',
      '  calls find {"city":"Oslo"}',
    ]);
  });

  it('shows data that are no parts of a message as JSON, and a call of a tool in words', () => {
    const shown = (content: unknown) => text(call([candidate(0, { text: null, content })])).at(-1);
    expect(shown([1, 2])).toBe('  [1,2]');
    expect(shown({ parts: [1, 2] })).toBe('  {"parts":[1,2]}');
    expect(shown([{ type: 'tool_call', name: 'find', arguments: { city: 'x' } }])).toBe('  calls find {"city":"x"}');
  });

  it('names what is odd about the result of a tool', () => {
    const tool = { kind: 'tool_call', who: 'Solver', name: 'find', arguments: { city: 'x' }, arguments_raw: null };
    const result = { status: 'ok', flags: ['apparent_error'], output: '{"error":"no"}', error: null };
    expect(entryText({ ...tool, ...result } as never, { full: false, paint }).split('\n')).toEqual([
      'tool find · ok · apparent_error',
      '  {"city":"x"}',
      '  → {"error":"no"}',
    ]);
  });

  it('with several names what is known of the call once, then each candidate with its reward and credit', () => {
    const judged = { method: 'grpo', value: -0.77459, reason: null };
    expect(
      text(
        call([candidate(0, { chosen: true, credits: [judged] }), candidate(1, { untrainable: null })], { prompt: [] }),
      ),
    ).toEqual([
      'Solver · solver · m1 · 12 tokens in · 3 out · 42 ms · 2 candidates',
      '',
      'candidate 0 · chosen · c/0 · not trainable: no_token_ids · credit -0.7746 by grpo',
      '  answer 0',
      '',
      'candidate 1 · c/1 · trainable',
      '  answer 1',
    ]);
  });

  it('without an answer says so, with its error', () => {
    expect(text(call([], { prompt: [], error: { message: 'away' }, output_tokens: null, latency_ms: null }))).toEqual([
      'Solver · solver · m1 · 12 tokens in · error {"message":"away"} · no answer recorded',
    ]);
  });

  it('cannot steer the terminal by what was recorded', () => {
    const evil = '\u001b[2Jx\u0007';
    const shown = text(call([candidate(0, { text: evil })], { prompt: [], who: evil })).join('\n');
    expect(shown).not.toMatch(/[^\P{Cc}\n]/u);
    expect(shown).toContain('\uFFFD[2Jx\uFFFD');
  });
});

describe('The line above an episode in the terminal', () => {
  it('says that the end of the episode is not recorded', () => {
    const episode = { episode_id: 'e', outcome: null, closed: false, steps: 2 };
    expect(heading({ episode } as never, { paint })).toBe('Episode e · steps 2 · open: its end is not recorded');
    expect(heading({ episode: { ...episode, closed: true } } as never, { paint })).toBe('Episode e · steps 2');
  });
});
