/** Sessions of GitHub Copilot CLI. */
import { describe, expect, it } from 'vitest';
import { type Data, known, read } from './support/convert.ts';

/** A session of these events, a second each. */
const session = (...events: readonly (readonly [type: string, data: Data])[]) =>
  [['session.start', { sessionId: 's', startTime: '2026-11-02T08:00:00Z' }] as const, ...events].map(
    ([type, data], i) => ({
      ...{ type, data, id: `e${i}`, parentId: i === 0 ? null : `e${i - 1}` },
      timestamp: `2026-11-02T08:00:0${i}Z`,
    }),
  );
const asked = ['user.message', { content: 'q', transformedContent: 'q, at eight' }] as const;
const calls = (...ids: readonly string[]) =>
  ids.map((toolCallId) => ({ toolCallId, name: 'view', arguments: { path: 'a' } }));
const answer = (data: Data = {}) => ['assistant.message', { messageId: 'm', content: 'a', ...data }] as const;
const result = (toolCallId: string, data: Data) =>
  ['tool.execution_complete', { toolCallId, success: true, ...data }] as const;

describe('copilot-cli', () => {
  it('reads what the model was sent, thought, called and got', () => {
    const events = session(
      asked,
      answer({ content: '', reasoningText: 'Hm.', toolRequests: calls('c1'), outputTokens: 4, model: 'made-up' }),
      result('c1', { result: { content: 'seen' } }),
      answer(),
    );
    expect(known(...events)).toBe('copilot-cli');
    const { of, times, refused } = read('copilot-cli', events);
    expect(refused).toEqual([]);
    expect(of('generation.requested')[0]).toMatchObject({
      agent_id: 'copilot',
      input: [{ role: 'user', content: 'q, at eight' }],
    });
    expect(of('generation.completed')).toMatchObject([
      {
        response_model: 'made-up',
        usage: { output_tokens: 4 },
        choices: [{ content: [{ content: 'Hm.' }, { name: 'view' }] }],
      },
      { choices: [{ content: 'a' }] },
    ]);
    expect(of('tool.returned')).toMatchObject([{ tool_call_id: 'c1', status: 'ok', output: 'seen' }]);
    expect(times('episode.finished')).toEqual(['2026-11-02T08:00:04Z']);
  });

  it('takes the usage that follows an answer, and a failed tool as one', () => {
    const usage = [
      'assistant.usage',
      { model: 'made-up', inputTokens: 9, outputTokens: 4, cacheReadTokens: 3 },
    ] as const;
    const failed = result('c1', { success: false, error: { message: 'no such file' } });
    const { of } = read('copilot-cli', session(asked, answer({ toolRequests: calls('c1') }), usage, failed));
    expect(of('generation.completed')).toMatchObject([
      { usage: { input_tokens: 9, output_tokens: 4, cached_input_tokens: 3 } },
    ]);
    expect(of('tool.returned')).toMatchObject([{ status: 'error', output: 'no such file' }]);
  });

  it('gives a sub-agent its own calls, behind the hand-over of the call that started it', () => {
    const inside = { parentToolCallId: 'c1' };
    const { of } = read(
      'copilot-cli',
      session(
        asked,
        answer({ toolRequests: calls('c1') }),
        ['subagent.started', { toolCallId: 'c1', agentName: 'explore' }],
        answer({ content: 'found', ...inside }),
        result('c1', { result: { content: 'found' } }),
      ),
    );
    expect(of('control.transferred')).toMatchObject([
      { from_agent: 'copilot', to_agent: 'explore', tool_call_id: 'c1', seq: 1 },
    ]);
    expect(of('generation.completed').map(({ agent_id: agent }) => agent)).toEqual(['copilot', 'explore']);
    expect(of('generation.requested').map(({ agent_id: agent }) => agent)).toEqual(['copilot']);
  });

  it('says nothing of what was shown once the conversation was cut, and passes over a tool that the user ran', () => {
    const cut = session(asked, answer(), ['session.compaction_complete', { success: true }]);
    expect(read('copilot-cli', cut).of('generation.requested')).toEqual([]);
    expect(
      read('copilot-cli', session(asked, result('own', { result: { content: 'x' } }), answer())).of('tool.returned'),
    ).toEqual([]);
  });

  it.each([
    [['abort', { reason: 'user' }] as const, 'aborted'],
    [['session.shutdown', { shutdownType: 'error' }] as const, 'error'],
  ])('ends with %j as %s', (last, outcome) => {
    expect(read('copilot-cli', session(asked, answer(), last)).of('episode.finished')).toMatchObject([{ outcome }]);
  });
});
