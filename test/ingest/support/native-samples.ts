/** Made-up native records of each format, as generators and as plain samples. */
import fc from 'fast-check';

const word = fc.constantFrom('plan', 'add the rates', 'ferry', 'naïve ☃', 'tab\there', 'quote " and \\', '[{', '🙂');
const text = fc.oneof(word, fc.string({ maxLength: 12 }), fc.constantFrom('', '\u0000', '\ud800 alone', '\ufffe'));
const callArguments = fc.oneof(
  fc.constantFrom('{"x": 1}', '{"x":1}', '{"b":2,"a":[1.0]}', '{broken', '"text"', '', '{"k\\u0000":1}'),
  fc.dictionary(fc.constantFrom('a', 'b', 'c'), fc.integer()).map((value) => JSON.stringify(value)),
);
const toolCall = fc.record({
  id: fc.constantFrom('call_1', 'call_2', 'call_3'),
  type: fc.constant('function'),
  function: fc.record({ name: fc.constantFrom('calc', 'search'), arguments: callArguments }),
});
const parts = fc.array(
  fc.oneof(
    fc.record({ type: fc.constant('text'), text }),
    fc.record({
      type: fc.constant('image_url'),
      image_url: fc.record({ url: fc.constant('https://example.org/a.png') }),
    }),
    fc.record({ type: fc.constant('text'), content: text }),
  ),
  { maxLength: 3 },
);
const asked = fc.record(
  {
    role: fc.constantFrom('system', 'user', 'developer'),
    content: fc.oneof(text, parts),
    name: fc.constantFrom('ann', 'user'),
  },
  { requiredKeys: ['role', 'content'] },
);
const answered = fc.record(
  {
    role: fc.constant('assistant'),
    content: fc.oneof(text, fc.constant(null), parts),
    tool_calls: fc.array(toolCall, { maxLength: 3 }),
    refusal: fc.constant(null),
    reasoning_content: fc.option(text),
    weight: fc.constantFrom(0, 1),
    name: fc.constantFrom('solver', 'critic'),
  },
  { requiredKeys: ['role'] },
);
type Native = Record<string, unknown>;

/** A conversation in which each tool call may be answered, also where native ids repeat. */
export const conversation = fc
  .array(fc.tuple(fc.oneof(asked, answered), fc.boolean()), { minLength: 1, maxLength: 8 })
  .map((turns) =>
    turns.flatMap(([message, reply]): Native[] => {
      const calls = ((message as Native).tool_calls ?? []) as { id: string }[];
      const results = reply
        ? calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: `result of ${id}` }))
        : [];
      return [message as Native, ...results];
    }),
  );

export const chatRow = fc.record(
  {
    messages: conversation,
    tools: fc.constantFrom(
      null,
      [],
      [{ type: 'function', function: { name: 'calc', parameters: { type: 'object' } } }],
    ),
    parallel_tool_calls: fc.boolean(),
    note: fc.jsonValue({ maxDepth: 2 }),
  },
  { requiredKeys: ['messages'] },
);

const choiceFields = fc.record(
  {
    message: answered,
    finish_reason: fc.constantFrom('stop', 'tool_calls', null),
    token_ids: fc.array(fc.nat(60000), { maxLength: 3 }),
    logprobs: fc.oneof(
      fc.constant(null),
      fc
        .array(fc.record({ token: word, logprob: fc.double({ min: -20, max: 0, noNaN: true }) }), { maxLength: 3 })
        .map((content) => ({ content, refusal: null })),
    ),
    stop_reason: fc.constant(null),
  },
  { requiredKeys: ['message'] },
);

export const completionLog = fc.record(
  {
    request: fc.record(
      {
        model: fc.constantFrom('m1', 'm2'),
        messages: conversation,
        metadata: fc.record(
          {
            run_id: fc.constantFrom('run-1', 'run-2'),
            task_id: fc.constantFrom('task-1', 'task-2'),
            agent: fc.constantFrom('solver', 'critic'),
            step: fc.nat(9).map(String),
            extra: word,
          },
          { requiredKeys: [] },
        ),
        temperature: fc.double({ min: 0, max: 2, noNaN: true }),
        n: fc.integer({ min: 1, max: 3 }),
        seed: fc.nat(),
        tools: fc.constantFrom(null, []),
      },
      { requiredKeys: ['messages'] },
    ),
    response: fc.record(
      {
        id: fc.constantFrom('chatcmpl-1', 'chatcmpl-2'),
        object: fc.constant('chat.completion'),
        created: fc.oneof(fc.integer({ min: 0, max: 2 ** 31 }), fc.constantFrom(1.5, null, -3)),
        model: fc.constantFrom('m1', null),
        choices: fc
          .array(choiceFields, { maxLength: 3 })
          .map((choices) => choices.map((choice, index) => ({ ...choice, index }))),
        usage: fc.constantFrom(null, { prompt_tokens: 3, completion_tokens: 2 }),
        prompt_token_ids: fc.array(fc.nat(60000), { maxLength: 3 }),
        system_fingerprint: word,
      },
      { requiredKeys: ['choices'] },
    ),
    latency: fc.double({ noNaN: true, noDefaultInfinity: true }),
  },
  { requiredKeys: ['request', 'response'] },
);

const NAMES = ['Orchestrator (thought)', 'Orchestrator (-> Searcher)', 'Searcher', 'human', 'Computer_terminal'];
export const failureLog = fc
  .record(
    {
      question: text,
      question_ID: fc.constantFrom('q-1', 'q-2'),
      level: fc.constantFrom('1', 2),
      ground_truth: text,
      is_correct: fc.constant(false),
      history: fc.array(fc.record({ content: text, role: fc.constantFrom(...NAMES) }), { minLength: 1, maxLength: 6 }),
      mistake_agent: fc.constantFrom('Orchestrator', 'Searcher', 'human'),
      mistake_step: fc.constantFrom('0', 'x', 7),
      mistake_reason: text,
      system_prompt: fc.dictionary(fc.constantFrom('Searcher', 'Idle'), text),
    },
    { requiredKeys: ['history', 'mistake_agent', 'mistake_step'] },
  )
  .map((value): Native => value);

export const serviceRun = fc
  .record(
    {
      task_id: fc.nat(3),
      reward: fc.constantFrom(0, 1, null),
      trial: fc.nat(2),
      traj: conversation,
      info: fc.record({
        task: fc.record({
          user_id: fc.constantFrom('ann_1', 'bob_2'),
          instruction: text,
          actions: fc.constant([{ name: 'calc', kwargs: { x: 1 } }]),
          outputs: fc.constant([]),
        }),
        user_cost: fc.constant(0.25),
      }),
    },
    { requiredKeys: ['task_id', 'reward', 'traj', 'info'] },
  )
  .map((value): Native => value);

/** Plain samples. */
export const SERVICE_RUN = {
  task_id: 4,
  trial: 1,
  reward: 1.0,
  info: {
    task: {
      user_id: 'ann_1',
      instruction: 'Book the ferry.',
      actions: [{ name: 'book', kwargs: { n: 1 } }],
      outputs: ['ok'],
    },
    source: 'user',
    user_cost: 0.5,
  },
  traj: [
    { role: 'system', content: 'You book ferries.' },
    { role: 'user', content: 'One seat please.' },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'c', type: 'function', function: { name: 'find', arguments: '{"n": 1}' } }],
    },
    { role: 'tool', tool_call_id: 'c', name: 'find', content: 'seat 3' },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'c', type: 'function', function: { name: 'book', arguments: '{"seat": 3}' } }],
    },
    { role: 'tool', tool_call_id: 'c', name: 'book', content: 'done' },
    { role: 'assistant', content: 'Booked.' },
    { role: 'user', content: 'Thanks.' },
  ],
};

export const FAILURE_LOG = {
  question: 'How many seats?',
  question_ID: 'q-7',
  level: 2,
  ground_truth: '20',
  is_corrected: false,
  history: [
    { content: 'How many seats?', role: 'human' },
    { content: 'Searcher: look it up.', role: 'Orchestrator (-> Searcher)' },
    { content: '21', role: 'Searcher' },
    { content: 'exitcode: 0', role: 'ComputerTerminal' },
  ],
  mistake_agent: 'Searcher',
  mistake_step: '2',
  mistake_reason: 'It guessed.',
};

export const completion = (run: string, step: number, words: string) => ({
  request: {
    model: 'm1',
    messages: [
      { role: 'system', content: 'You solve.' },
      { role: 'user', content: 'How many minutes?' },
      ...Array.from({ length: step }, (_, i) => ({ role: 'user', name: 'planner', content: `round ${i}` })),
    ],
    metadata: { run_id: run, task_id: 'math-1', agent: 'solver', step: `${step}` },
  },
  response: {
    id: `chatcmpl-${run}-${step}`,
    created: 1789001000 + step,
    model: 'm1',
    prompt_token_ids: [1, 2],
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: words },
        finish_reason: 'stop',
        token_ids: [7, 8],
        logprobs: {
          content: [
            { token: 'a', logprob: -0.5 },
            { token: 'b', logprob: -0.25 },
          ],
        },
      },
      { index: 1, message: { role: 'assistant', content: `${words}?` }, finish_reason: 'length' },
    ],
    usage: { prompt_tokens: 2, completion_tokens: 2 },
  },
});
