/**
 * Each interface of the gateway, both ways: how a policy's answer is written for a client, whole and streamed, and what is recorded of the
 * same bytes where they come from a model server. Compared with the texts beside this file, which `npm run golden` writes.
 */
import { describe, expect, it } from 'vitest';
import { type AnswerBody, chatBody, textBody } from '../../api/gateway/answer.ts';
import { messagesBody, messagesStream } from '../../api/gateway/dialects/messages-answer.ts';
import { readMessagesRequest } from '../../api/gateway/dialects/messages-request.ts';
import { responsesBody, responsesStream } from '../../api/gateway/dialects/responses-answer.ts';
import { readResponsesRequest } from '../../api/gateway/dialects/responses-request.ts';
import { chatStream, type StreamOf, streamText, textStream } from '../../api/gateway/events.ts';
import { type CompletionRequest, readChatRequest, readTextRequest } from '../../api/gateway/request.ts';
import { captureAnswer, readAnswer } from '../../api/gateway/upstream/capture.ts';
import type { Kind } from '../../api/gateway/upstream/kind.ts';
import { upstreamDrafts } from '../../api/gateway/upstream/record.ts';
import { canonicalJson } from '../../ingest/events/json.ts';
import type { SampleAnswer } from '../../trainer/sample/infer-wire.ts';
import { eventText } from './recorded.ts';

type Body = Record<string, unknown>;
type Dialect = {
  readonly kind: Kind;
  readonly request: Body;
  readonly read: (body: Body) => CompletionRequest | Promise<CompletionRequest>;
  readonly bodyOf: AnswerBody;
  readonly streamOf: StreamOf;
};

const SCHEMA = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const WRITTEN = '{"city": "Bern", "n": 1.0}';
const FUNCTION = { name: 'look_up', description: 'Looks up a city.', parameters: SCHEMA };
const called = { id: 'call_1', type: 'function', function: { name: 'look_up', arguments: WRITTEN } };

const DIALECTS: readonly Dialect[] = [
  {
    kind: 'chat',
    request: {
      model: 'policy:team',
      messages: [
        { role: 'system', content: 'You look up.' },
        { role: 'user', content: 'How far is Bern?' },
        { role: 'assistant', content: null, tool_calls: [called] },
        { role: 'tool', tool_call_id: 'call_1', content: 'far' },
      ],
      tools: [{ type: 'function', function: FUNCTION }],
      temperature: 0.5,
    },
    read: readChatRequest,
    bodyOf: chatBody,
    streamOf: chatStream,
  },
  {
    kind: 'messages',
    request: {
      model: 'policy:team',
      max_tokens: 32,
      system: 'You look up.',
      messages: [
        { role: 'user', content: 'How far is Bern?' },
        {
          role: 'assistant',
          content: [{ type: 'tool_use', id: 'call_1', name: 'look_up', input: { city: 'Bern', n: 1 } }],
        },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_1', content: 'far' }] },
      ],
      tools: [{ name: 'look_up', description: 'Looks up a city.', input_schema: SCHEMA }],
    },
    read: (body) => readMessagesRequest(body),
    bodyOf: messagesBody,
    streamOf: messagesStream,
  },
  {
    kind: 'responses',
    request: {
      model: 'policy:team',
      instructions: 'You look up.',
      input: [
        { role: 'user', content: 'How far is Bern?' },
        { type: 'function_call', call_id: 'call_1', name: 'look_up', arguments: WRITTEN },
        { type: 'function_call_output', call_id: 'call_1', output: 'far' },
      ],
      tools: [{ type: 'function', ...FUNCTION }],
    },
    read: (body) => readResponsesRequest(body, async () => []),
    bodyOf: responsesBody,
    streamOf: responsesStream,
  },
  {
    kind: 'text',
    request: { model: 'policy:team', prompt: 'Bern is', max_tokens: 8 },
    read: readTextRequest,
    bodyOf: textBody,
    streamOf: textStream,
  },
];

const answer = (isText: boolean): SampleAnswer => ({
  choices: [
    {
      ...{ token_ids: [11, 12, 13], logprobs: [-0.5, -0.25, -1], finish_reason: 'stop' },
      text: isText ? ' far.' : `I look.\n<tool_call>look_up ${WRITTEN}</tool_call>`,
      ...(isText ? {} : { called: { content: 'I look.', calls: [{ name: 'look_up', arguments: WRITTEN }] } }),
    },
  ],
  prompt_token_ids: [7, 8],
  model: 'team',
  checkpoint: 'c-1',
  usage: { prompt_tokens: 2, completion_tokens: 3 },
});
const IDS = { callId: 'call', episodeId: 'episode', created: 1_789_000_000 };
const CONTEXT = { episode: 'episode', task: null, group: null, agent: 'ann', role: null, turn: null, parent: null };

async function recorded(kind: Kind, request: Body, type: string, text: string): Promise<string> {
  const capture = captureAnswer(kind, { 'content-type': type }, 1e6, () => 0);
  capture.add(Buffer.from(text));
  const { response, incomplete } = await readAnswer(capture.taken(), 1e6);
  const drafts = upstreamDrafts({
    ...{ kind, request, response, incomplete, context: CONTEXT, callId: 'call', episodeId: 'episode', model: 'team' },
    ...{ status: 200, error: null, latencyMs: 1, firstTokenMs: null, raw: null, flags: [] },
    ...{ requestedAt: '2026-11-27T10:00:00Z', completedAt: '2026-11-27T10:00:01Z' },
    upstream: { name: 'main', prices: {}, tokenIds: 'vllm', logprobs: 'processed', checkpoints: {} },
  });
  return drafts.map((draft) => eventText(draft as never)).join('\n\n');
}

describe('An interface of the gateway', () => {
  it.each(DIALECTS)(
    'reads, writes and records $kind as was kept',
    async ({ kind, request, read, bodyOf, streamOf }) => {
      const streamed = { ...request, stream: true };
      const asked = await read(request);
      const body = JSON.parse(JSON.stringify(bodyOf(answer(kind === 'text'), asked, IDS)));
      const stream = streamText(streamOf(body, await read(streamed)).end(body));
      const text = [
        ['request as a policy reads it', JSON.stringify(asked, null, 1)],
        ['response', JSON.stringify(body, null, 1)],
        ['stream', stream.trimEnd()],
        ['events of the response', await recorded(kind, request, 'application/json', canonicalJson(body))],
        ['events of the stream', await recorded(kind, streamed, 'text/event-stream', stream)],
      ].map(([title, part]) => `# ${title}\n\n${part}`);
      await expect(`${text.join('\n\n')}\n`).toMatchFileSnapshot(`dialects/${kind}.txt`);
    },
  );
});
