/** Sessions of Goose. */
import { describe, expect, it } from 'vitest';
import { type Data, known, read } from './support/convert.ts';

const message = (role: string, created: number, content: readonly Data[], more: Data = {}) => ({
  ...{ id: `msg_${created}`, role, created, content },
  ...more,
});
const text = (words: string) => ({ type: 'text', text: words });
const request = (toolCall: Data) => ({ type: 'toolRequest', id: 'c1', toolCall });
const response = (toolResult: Data) => ({ type: 'toolResponse', id: 'c1', toolResult });
const asked = message('user', 1, [text('Which tide?')]);
const called = message('assistant', 2, [
  { type: 'thinking', thinking: 'Hm.', signature: '' },
  request({ status: 'success', value: { name: 'shell', arguments: { command: 'ls' } } }),
]);
const returned = (toolResult: Data) => message('user', 3, [response(toolResult)]);

describe('goose', () => {
  it('reads an exported session: thoughts, calls, results, totals and the model', () => {
    const session = {
      ...{ id: 's', created_at: '2026-11-02T08:00:00Z', input_tokens: 9, model_config: { model_name: 'made-up' } },
      conversation: [asked, called, returned({ status: 'success', value: { content: [text('a'), text('b')] } })],
    };
    expect(known(session)).toBe('goose');
    const { of, times, refused } = read('goose', session);
    expect(refused).toEqual([]);
    expect(of('generation.completed')).toMatchObject([
      {
        response_model: 'made-up',
        choices: [
          { content: [{ type: 'reasoning' }, { type: 'tool_call', name: 'shell', arguments: { command: 'ls' } }] },
        ],
      },
    ]);
    expect(of('tool.returned')).toMatchObject([{ tool_call_id: 'c1', status: 'ok', output: 'a\nb' }]);
    expect(of('episode.finished')).toMatchObject([{ totals: { input_tokens: 9 } }]);
    expect(times('episode.started')).toEqual(['2026-11-02T08:00:00.000000Z']);
  });

  it.each([
    [{ status: 'error', error: 'no such file' }, 'error', 'no such file'],
    [{ status: 'success', value: { content: [text('1 failed')], isError: true } }, 'error', '1 failed'],
    [{ status: 'success', value: [text('old')] }, 'ok', 'old'],
  ])('takes the result %j as it was', (result, status, output) => {
    const { of } = read('goose', [{ working_dir: '/quay' }, asked, called, returned(result)]);
    expect(of('tool.returned')).toMatchObject([{ status, output }]);
  });

  it('does not say what was shown in a session that was summarised', () => {
    const hidden = { ...asked, metadata: { userVisible: true, agentVisible: false } };
    expect(read('goose', { id: 's', conversation: [hidden, called] }).of('generation.requested')).toEqual([]);
    expect(read('goose', { id: 's', conversation: [asked, called] }).of('generation.requested').length).toBe(1);
  });

  it('keeps what was wrong with a call that could not be read', () => {
    const broken = message('assistant', 2, [request({ status: 'error', error: 'no JSON' })]);
    const { of } = read('goose', { id: 's', conversation: [asked, broken] });
    expect(of('tool.called')).toMatchObject([{ name: 'unknown', arguments: { error: 'no JSON' } }]);
  });

  it('refuses a message that is none by its place', () => {
    expect(read('goose', [{ working_dir: '/quay' }, asked, { role: 'user' }]).refused).toEqual(['bad_shape [1]']);
  });
});
