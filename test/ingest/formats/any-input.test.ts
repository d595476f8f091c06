/** Every format against records that are almost its own: one member anywhere is missing or something else. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeDraft } from '../../../ingest/events/decode.ts';
import { canonicalJson } from '../../../ingest/events/json.ts';
import { FORMATS, formatNamed } from '../../../ingest/formats/catalogue.ts';

const chat = [
  { role: 'user', content: 'q' },
  {
    role: 'assistant',
    content: 'a',
    tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }],
  },
  { role: 'tool', tool_call_id: 'c', content: '2' },
];
const step = {
  step_id: 1,
  source: 'agent',
  message: 'a',
  tool_calls: [{ tool_call_id: 'c', function_name: 'f', arguments: {} }],
  observation: { results: [{ source_call_id: 'c', content: 'x' }] },
  metrics: { completion_token_ids: [1], logprobs: [-1] },
};
const event = (type: string, event_data: object, n: number) => ({
  event_id: `e${n}`,
  timestamp: '2026-09-10T10:00:00Z',
  type,
  event_data: { agent_role: 'a', ...event_data },
  emission_sequence: n,
  parent_event_id: `e${n - 1}`,
});
const kani = (msg: object) => ({ type: 'kani_message', timestamp: 1, id: 'k', msg });

const RECORDS: Readonly<Record<string, readonly unknown[]>> = {
  atif: [
    {
      schema_version: 'ATIF-v1.7',
      session_id: 's',
      agent: { name: 'a', version: '1' },
      steps: [step],
      final_metrics: { extra: { reward: 1 } },
      subagent_trajectories: [{ schema_version: 'ATIF-v1.7', trajectory_id: 't', agent: { name: 'b' }, steps: [] }],
    },
  ],
  'session-traces': [
    [
      { type: 'session', harness: 'h', id: 's', name: 'n' },
      { type: 'message', message: { id: '0', parent: null, role: 'system', content: '', type: 'root' } },
      { type: 'message', message: { id: 'a', parent: '0', role: 'user', content: 'q', timestamp: 1, extra: [] } },
      {
        type: 'message',
        message: {
          id: 'b',
          parent: 'a',
          role: 'assistant',
          content: 'a',
          reasoningContent: 'r',
          toolCalls: [{ id: 'c', function: { name: 'f', arguments: '{}' } }],
          timings: { prompt_n: 1, cache_n: 1, predicted_n: 1 },
          model: 'm',
          completionId: 'd',
        },
      },
      { type: 'message', message: { id: 'c', parent: 'b', role: 'tool', content: 'x', toolCallId: 'c' } },
    ],
  ],
  sharegpt: [
    {
      conversations: [
        { from: 'human', value: 'q' },
        { from: 'function_call', value: '{"name":"f"}' },
        { from: 'observation', value: '2' },
      ],
      tools: '[]',
      system: 's',
      chosen: { from: 'gpt', value: 'a' },
      rejected: { from: 'gpt', value: 'b' },
    },
  ],
  m500: [{ question: 'q', solution: '1', expert_recruiter_messages: chat, critic_messages: chat }],
  'mas-gpt': [{ query: 'q', gt: '1', masgpt_generated: 'x', mas_str: 'y', extract_flag: true, generated_output: 'z' }],
  agentverse: [
    {
      input: 'q',
      response: 'a',
      label: '1',
      spend: 0,
      logs: [
        { module: 'CEO', content: { decision: 'stop', recruit_number: 1 } },
        { agent: 'evaluator', content: 'Score: 1' },
        { agent: 'system', content: 'Accept' },
      ],
    },
  ],
  autogen: [
    {
      messages: [
        { source: 'user', type: 'TextMessage', content: 'q' },
        {
          source: 'a',
          type: 'ToolCallRequestEvent',
          content: [{ id: 'c', name: 'f', arguments: '{}' }],
          models_usage: {},
        },
        { source: 'a', type: 'ToolCallExecutionEvent', content: [{ call_id: 'c', content: '2' }] },
        { source: 'a', type: 'HandoffMessage', target: 'b', content: 'x' },
      ],
      stop_reason: 's',
    },
  ],
  agentscope: [
    [
      { id: '1', name: 'user', role: 'user', content: 'q', timestamp: '2026-09-10 10:00:00' },
      {
        id: '2',
        name: 'a',
        role: 'assistant',
        content: [
          { type: 'tool_call', id: 'c', name: 'f', input: '{}' },
          { type: 'tool_result', id: 'c', output: 'x' },
        ],
        timestamp: '2026-09-10 10:00:01',
      },
    ],
  ],
  'claude-code': [
    [
      {
        type: 'user',
        message: { role: 'user', content: 'q' },
        uuid: 'u1',
        parentUuid: null,
        sessionId: 's',
        timestamp: 't',
      },
      {
        type: 'assistant',
        message: {
          id: 'm',
          role: 'assistant',
          model: 'c',
          content: [
            { type: 'thinking', thinking: 'hm' },
            { type: 'tool_use', id: 'c', name: 'Agent', input: { prompt: 'p', subagent_type: 'x' } },
          ],
          usage: {},
        },
        uuid: 'u2',
        parentUuid: 'u1',
        sessionId: 's',
        requestId: 'r',
      },
      {
        type: 'user',
        message: {
          role: 'user',
          content: [{ type: 'tool_result', tool_use_id: 'c', content: [{ type: 'text', text: 'x' }] }],
        },
        uuid: 'u3',
        parentUuid: 'u2',
        sessionId: 's',
        toolUseResult: { agentId: 'a', agentType: 'x', totalDurationMs: 1 },
      },
      {
        type: 'user',
        message: { role: 'user', content: 'p' },
        uuid: 'u4',
        isSidechain: true,
        agentId: 'a',
        sessionId: 's',
      },
      { type: 'system', subtype: 'compact_boundary', uuid: 'u5', sessionId: 's', content: 'x' },
    ],
  ],
  codex: [
    [
      {
        timestamp: 't',
        type: 'session_meta',
        payload: { id: 's', base_instructions: { text: 'i' }, source: { subagent: {} } },
      },
      { timestamp: 't', type: 'turn_context', payload: { model: 'm' } },
      {
        timestamp: 't',
        type: 'response_item',
        payload: { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'q' }] },
      },
      {
        timestamp: 't',
        type: 'response_item',
        payload: { type: 'reasoning', summary: [{ type: 'summary_text', text: 'hm' }], encrypted_content: 'e' },
      },
      {
        timestamp: 't',
        type: 'response_item',
        payload: { type: 'function_call', name: 'f', arguments: '{}', call_id: 'c' },
      },
      { timestamp: 't', type: 'token_usage_record', payload: { usage: { input_tokens: 1 }, response_id: 'r' } },
      {
        timestamp: 't',
        type: 'event_msg',
        payload: { type: 'item_completed', item: { id: 'c', exit_code: 1, duration: { secs: 0, nanos: 1 } } },
      },
      { timestamp: 't', type: 'response_item', payload: { type: 'function_call_output', call_id: 'c', output: 'x' } },
      { timestamp: 't', type: 'compacted', payload: { message: 'm', replacement_history: [] } },
      { timestamp: 't', type: 'event_msg', payload: { type: 'task_complete', last_agent_message: 'a' } },
    ],
  ],
  'gemini-cli': [
    [
      { sessionId: 's', projectHash: 'p', startTime: 't', lastUpdated: 't', kind: 'main' },
      { $set: { messages: [{ id: 'u0', timestamp: 't', type: 'user', content: [{ text: 'x' }] }], lastUpdated: 't' } },
      {
        id: 'u',
        timestamp: 't',
        type: 'user',
        content: [{ text: 'q' }, { inlineData: { data: 'eA==', mimeType: 'm' } }],
      },
      {
        id: 'g',
        timestamp: 't',
        type: 'gemini',
        content: [{ text: 'hm', thought: true }, { functionCall: { id: 'c', name: 'f', args: {} } }],
        thoughts: [{ subject: 's', description: 'd', timestamp: 't' }],
        tokens: { input: 1, output: 1, cached: 0, thoughts: 1, tool: 0, total: 3 },
        model: 'm',
        toolCalls: [
          {
            id: 'c',
            name: 'f',
            args: {},
            result: [{ functionResponse: { id: 'c', name: 'f', response: { output: 'x' } } }],
            status: 'success',
            timestamp: 't',
            agentId: 'a',
          },
        ],
      },
      { $rewindTo: 'g' },
      { id: 'i', timestamp: 't', type: 'info', content: 'x' },
    ],
    {
      history: [
        { role: 'user', parts: [{ text: 'q' }] },
        { role: 'model', parts: [{ text: 'a' }] },
      ],
    },
  ],
  opencode: [
    {
      info: {
        id: 'ses_1',
        parentID: 'ses_0',
        directory: '/w',
        title: 't',
        version: '1',
        time: { created: 1, updated: 1 },
      },
      messages: [
        {
          info: { id: 'msg_1', sessionID: 'ses_1', role: 'user', time: { created: 1 } },
          parts: [
            { id: 'prt_1', messageID: 'msg_1', sessionID: 'ses_1', type: 'text', text: 'q' },
            { id: 'prt_2', messageID: 'msg_1', sessionID: 'ses_1', type: 'compaction', auto: true, tail_start_id: 'x' },
          ],
        },
        {
          info: {
            id: 'msg_2',
            sessionID: 'ses_1',
            role: 'assistant',
            summary: true,
            agent: 'a',
            modelID: 'm',
            time: { created: 2, completed: 3 },
            error: { name: 'e', data: {} },
          },
          parts: [
            { id: 'prt_3', messageID: 'msg_2', sessionID: 'ses_1', type: 'step-start' },
            {
              id: 'prt_4',
              messageID: 'msg_2',
              sessionID: 'ses_1',
              type: 'tool',
              tool: 'task',
              callID: 'c',
              state: {
                status: 'completed',
                input: {},
                output: 'x',
                metadata: { sessionId: 's' },
                time: { start: 2, end: 3 },
              },
            },
            {
              id: 'prt_5',
              messageID: 'msg_2',
              sessionID: 'ses_1',
              type: 'step-finish',
              reason: 'stop',
              cost: 0,
              tokens: { input: 1, output: 1, reasoning: 0, total: 2, cache: { read: 0, write: 0 } },
            },
          ],
        },
      ],
    },
  ],
  pi: [
    [
      { type: 'session', version: 3, id: 's', timestamp: 't', cwd: '/w' },
      { type: 'message', id: 'a', parentId: null, timestamp: 't', message: { role: 'user', content: 'q' } },
      {
        type: 'message',
        id: 'b',
        parentId: 'a',
        timestamp: 't',
        message: {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: 'hm' },
            { type: 'toolCall', id: 'c', name: 'f', arguments: {} },
          ],
          model: 'm',
          usage: { input: 1, output: 1 },
          stopReason: 'toolUse',
          timestamp: 1,
        },
      },
      {
        type: 'message',
        id: 'd',
        parentId: 'b',
        timestamp: 't',
        message: { role: 'toolResult', toolCallId: 'c', content: [{ type: 'image', data: 'x', mimeType: 'y' }] },
      },
      { type: 'compaction', id: 'e', parentId: 'd', timestamp: 't', summary: 's', firstKeptEntryId: 'b' },
      { type: 'message', id: 'f', parentId: 'e', timestamp: 't', message: { role: 'bashExecution', command: 'ls' } },
      { type: 'message', id: 'g', parentId: 'f', timestamp: 't', message: { role: 'assistant', content: 'a' } },
    ],
  ],
  'tau2-bench': [
    {
      info: {
        num_trials: 1,
        environment_info: { domain_name: 'd', policy: 'p' },
        agent_info: { llm: 'm', llm_args: {} },
      },
      tasks: [{ id: 't', user_scenario: { instructions: 'q' }, evaluation_criteria: {} }],
      simulations: [
        {
          id: 's',
          task_id: 't',
          trial: 0,
          termination_reason: 'user_stop',
          reward_info: { reward: 1, reward_breakdown: { DB: 1 } },
          messages: [
            { role: 'user', content: null, tool_calls: [{ id: 'c', name: 'f', arguments: {}, requestor: 'user' }] },
            { role: 'tool', tool_messages: [{ id: 'c', content: 'x', requestor: 'user', error: true }] },
            { role: 'assistant', content: 'a', usage: { prompt_tokens: 1 }, generation_time_seconds: 0.5 },
          ],
        },
      ],
    },
  ],
  verl: [
    { input: 'q', output: 'a', gts: '1', score: 1, step: 1, acc: true, uid: 'u_0_0' },
    [
      { input: 'q', output: 'a', gts: '1', score: 1, uid: 'u_0_1' },
      { input: 'q', output: 'a', gts: '1', score: 1 },
    ],
  ],
  'prime-rl': [
    {
      id: 'e',
      env: { id: 'v' },
      task: { type: 'T', key: 'k', data: { prompt: 'q', answer: '1' } },
      group: { id: 'g' },
      run: { id: 'r', work: { policy: { start: 1, end: 1 } } },
      ok: true,
      traces: [
        {
          id: 't',
          task: {},
          agent: { name: 'a' },
          nodes: [
            { message: { role: 'user', content: 'q' }, token_ids: [1], mask: [false] },
            {
              parent: 0,
              message: { role: 'assistant', content: 'a', tool_calls: [{ id: 'c', name: 'f', arguments: '{}' }] },
              sampled: true,
              token_ids: [2, 3],
              mask: [false, true],
              logprobs: [-1],
            },
            { parent: 1, message: { role: 'tool', tool_call_id: 'c', content: 'x' } },
          ],
          calls: [{ node: 1, model: 'm', usage: { prompt_tokens: 1 }, time: { start: 1, end: 2 } }, { error: {} }],
          rewards: { r: { score: 1, weight: 1 } },
          metrics: { m: 1 },
        },
      ],
    },
  ],
  rllm: [
    {
      id: 't:1',
      task: { id: 't', question: 'q' },
      is_correct: true,
      termination_reason: 'error',
      metrics: { m: 1 },
      trajectories: [
        {
          uid: 'u',
          name: 'a',
          reward: 1,
          signals: { s: 1 },
          steps: [
            {
              chat_completions: chat,
              prompt_ids: [1],
              response_ids: [2],
              logprobs: [-1],
              thought: 'hm',
              reward: 1,
              model_output: { tool_calls: [{ name: 'f', arguments: {} }], prompt_length: 1, completion_length: 1 },
            },
            { input: 'q', output: 'a' },
          ],
        },
      ],
    },
  ],
  adp: [
    {
      id: 'a',
      content: [
        { class_: 'text_observation', content: 'q', source: 'user' },
        { class_: 'api_action', function: 'f', kwargs: {}, tool_call_id: 'c', reward: 1, description: 'd' },
        { class_: 'text_observation', content: 'x', source: 'environment', tool_call_id: 'c' },
        { class_: 'code_action', language: 'bash', content: 'ls', reasoning_content: 'hm' },
        { class_: 'web_observation', axtree: 'x' },
        { class_: 'message_action', content: 'a', description: 'd' },
        { class_: 'image_observation', content: 'x', source: 'agent' },
      ],
      available_custom_tools: ['f'],
      details: { episode_id: 'e', step_ids: ['c/0'], system: ['s'], agent: 'a', role: 'r', task_id: 't' },
    },
  ],
  openhands: [
    [
      { id: 0, source: 'agent', action: 'system', args: { content: 's', tools: [], agent_class: 'A' } },
      { id: 1, source: 'user', action: 'message', args: { content: 'q', image_urls: ['u'] } },
      {
        id: 2,
        source: 'agent',
        action: 'run',
        args: { command: 'ls', thought: 't' },
        tool_call_metadata: {
          tool_call_id: 'c',
          model_response: { id: 'r', model: 'm', choices: [{ message: chat[1], finish_reason: 's' }], usage: {} },
        },
      },
      {
        id: 3,
        source: 'environment',
        observation: 'run',
        content: 'x',
        cause: 2,
        extras: { metadata: { exit_code: 1 } },
      },
      { id: 4, source: 'agent', action: 'delegate', args: { agent: 'B', inputs: { task: 't' } } },
      { id: 5, source: 'environment', observation: 'delegate', content: 'x', cause: 4, extras: {} },
      {
        id: 6,
        source: 'agent',
        action: 'condensation',
        args: { forgotten_events_start_id: 1, forgotten_events_end_id: 3, summary: 's' },
      },
      {
        id: 7,
        source: 'agent',
        action: 'finish',
        args: { outputs: {}, final_thought: 'a' },
        llm_metrics: { accumulated_token_usage: { prompt_tokens: 3, completion_tokens: 1 } },
      },
    ],
    [
      [
        {
          id: 's',
          agent: {},
          workspace: {},
          execution_status: 'x',
          stats: { usage_to_metrics: { a: { token_usages: [{ response_id: 'r', prompt_tokens: 1 }] } } },
        },
      ],
      [
        {
          kind: 'SystemPromptEvent',
          id: '0',
          timestamp: 't',
          source: 'agent',
          system_prompt: { text: 's' },
          tools: [],
        },
      ],
      [
        {
          kind: 'MessageEvent',
          id: '1',
          timestamp: 't',
          source: 'user',
          llm_message: { role: 'user', content: [{ type: 'text', text: 'q' }] },
        },
      ],
      [
        {
          kind: 'ActionEvent',
          id: '2',
          timestamp: 't',
          source: 'agent',
          thought: [],
          tool_call: { id: 'c', name: 'f', arguments: '{}' },
          llm_response_id: 'r',
          action: { kind: 'FinishAction', message: 'a' },
        },
      ],
      [
        {
          kind: 'ObservationEvent',
          id: '3',
          timestamp: 't',
          source: 'environment',
          tool_call_id: 'c',
          observation: { content: [{ type: 'text', text: 'x' }], is_error: true },
        },
      ],
      [
        {
          kind: 'TokenEvent',
          id: '4',
          timestamp: 't',
          source: 'agent',
          prompt_token_ids: [1],
          response_token_ids: [2],
        },
      ],
      [
        {
          kind: 'Condensation',
          id: '5',
          timestamp: 't',
          source: 'environment',
          forgotten_event_ids: ['2'],
          summary: 's',
          summary_offset: 1,
        },
      ],
    ],
    {
      instance_id: 'i',
      instruction: 'q',
      history: [{ id: 0, source: 'agent', action: 'message', args: { content: 'a' } }],
      test_result: { report: { resolved: true } },
      error: 'x',
    },
  ],
  inspect: [
    {
      version: 2,
      eval: { run_id: 'r', eval_id: 'e', task: 'k', model: 'm' },
      samples: [
        {
          id: 'i',
          epoch: 1,
          input: [{ role: 'user', content: 'q' }],
          target: 't',
          attachments: { a: 'x' },
          events_data: { messages: [{ role: 'user', content: 'q' }] },
          events: [
            { event: 'span_begin', id: 's', type: 'agent', name: 'a' },
            {
              event: 'model',
              span_id: 's',
              input_refs: [[0, 1]],
              output: {
                choices: [
                  {
                    message: { content: 'a', tool_calls: [{ id: 'c', function: 'f', arguments: {} }] },
                    stop_reason: 's',
                  },
                ],
                usage: {},
              },
            },
            { event: 'tool', span_id: 's', id: 'c', result: 'x', agent: 'b', error: { type: 'timeout' } },
            { event: 'info', data: 'x' },
          ],
          scores: { s: { value: 'C' } },
        },
        {
          id: 1,
          epoch: 2,
          messages: [
            { role: 'assistant', content: 'a' },
            { role: 'tool', tool_call_id: 'c', content: 'x' },
          ],
        },
      ],
    },
  ],
  crewai: [
    {
      batch_id: 'b',
      user_context: { session_id: 's' },
      events: [
        event('crew_kickoff_started', { inputs: { task: 'q' } }, 1),
        event('llm_call_started', { call_id: 'c', messages: chat }, 2),
        event('llm_call_completed', { call_id: 'c', response: 'a', usage: {} }, 3),
        event('tool_usage_started', { tool_name: 'f', tool_args: {} }, 4),
        event('tool_usage_finished', { tool_name: 'f', output: 'x' }, 5),
        event('crew_test_result', { quality: 1 }, 6),
        event('crew_kickoff_completed', { output: 'o' }, 7),
      ],
    },
    [{ timestamp: 't', task: 'q', agent: 'a', status: 'completed', output: 'o' }],
  ],
  multiagentbench: [
    {
      task: 'q',
      coordination_mode: 'graph',
      iterations: [
        {
          task_results: [{ agent_id: 'a', result: 'x' }],
          task_assignments: {},
          communications: ['From a to b: c'],
          summary: 's',
        },
      ],
      planning_scores: [1],
      task_evaluation: { a: 1 },
      agent_kpis: { a: 1 },
    },
    { agents: [{ agent_id: 'a' }], relationships: [['a', 'b', 'c']], task: { content: 'q' }, scenario: 's' },
  ],
  mast: [
    {
      mas_name: 'a',
      trace: { trajectory: "{'content': ['x'], 'role': 'user', 'name': 'user'}" },
      mast_annotation: { '1.1': 1 },
    },
    { mas_name: 'a', trace: '[]', annotations: [{ 'failure mode': '1.3 Step Repetition', annotator_1: true }] },
  ],
  redel: [
    [
      [
        { type: 'kani_spawn', timestamp: 1, id: 'k', name: 'n', depth: 0 },
        kani({ role: 'assistant', content: 'a', tool_calls: [{ id: 'c', function: { name: 'f', arguments: '{}' } }] }),
        kani({ role: 'function', content: 'x', tool_call_id: 'c' }),
        { type: 'tokens_used', timestamp: 1, id: 'k', prompt_tokens: 1 },
        { type: 'kani_state_change', timestamp: 1, id: 'k', state: 'running' },
        { type: 'round_complete', timestamp: 1, session_id: 's' },
      ],
      [{ id: 's', n_events: 6, last_modified: 1, state: [] }],
    ],
  ],
  'mini-swe-agent': [
    {
      trajectory_format: 'mini-swe-agent-1.1',
      info: { exit_status: 'Submitted', submission: 'p', config: { model: { model_name: 'm' } }, model_stats: {} },
      messages: [
        { role: 'user', content: 'q' },
        {
          role: 'assistant',
          content: 'a',
          tool_calls: [{ id: 'c', function: { name: 'bash', arguments: '{}' } }],
          extra: {
            actions: [{ command: 'ls' }],
            timestamp: 1,
            response: { model: 'm', usage: { prompt_tokens: 1 }, choices: [{ finish_reason: 'stop' }] },
          },
        },
        { role: 'tool', tool_call_id: 'c', content: 'x', extra: { returncode: 1, exception_info: 'e', timestamp: 1 } },
        {
          object: 'response',
          output: [{ type: 'function_call', call_id: 'd', name: 'f', arguments: '{}' }],
          extra: {},
        },
        { type: 'function_call_output', call_id: 'd', output: 'x' },
        {
          type: 'message',
          role: 'user',
          content: [{ type: 'input_text', text: 'no' }],
          extra: { interrupt_type: 'FormatError', response: { choices: [{ message: chat }] } },
        },
        { role: 'exit', content: 'p', extra: {} },
      ],
    },
  ],
  'swe-agent': [
    {
      trajectory: [
        { action: 'ls', observation: 'x', response: 'r', thought: 't', state: '{}', query: chat, execution_time: 1 },
      ],
      history: [
        {
          role: 'assistant',
          agent: 'm',
          content: 'r',
          action: 'ls',
          thought: 't',
          tool_calls: [{ id: 'c', function: { name: 'f', arguments: '{}' } }],
        },
        { role: 'tool', agent: 'm', content: 'x', tool_call_ids: ['c'] },
      ],
      info: { submission: 'd', exit_status: 's', model_stats: {} },
      replay_config: { problem_statement: { id: 'i', text: 't' }, agent: { model: { name: 'm' } } },
    },
  ],
  'swe-bench': [
    [
      [
        { instance_id: 'i', problem_statement: 'q', FAIL_TO_PASS: '[]' },
        { instance_id: 'i', model_name_or_path: 'm', model_patch: 'd' },
      ],
      [{ i: { resolved: true, tests_status: { FAIL_TO_PASS: { success: ['t'], failure: [] } } } }],
    ],
  ],
  'swe-dev': [
    { PRD: 'q', file_code: {}, GT_file_code: {}, test_file: 't' },
    { query: 'q', generated_output: { a: 'b' }, token_stats: { m: {} } },
    { passed: 1, failed: 0, errors: 0 },
  ],
  are: [
    {
      version: 'are_simulation_v1',
      metadata: { definition: { scenario_id: 's', run_number: 1 }, annotation: { validation_decision: 'Valid' } },
      events: [],
      completed_events: [
        {
          event_type: 'AGENT',
          event_id: 'e',
          action: { app: 'A', function: 'f', args: [{ name: 'n', value: '[1]', value_type: 'list' }] },
          metadata: { return_value: 'x' },
        },
      ],
      world_logs: [],
    },
    {
      metadata: { definition: { scenario_id: 's' } },
      world_logs: [
        {
          log_type: 'llm_input',
          agent_id: 'a',
          id: 'l1',
          content: [{ role: 'user', content: 'q', attachments: [{ mime: 'x' }] }],
        },
        { log_type: 'llm_output', agent_id: 'a', id: 'l2', content: 'x', prompt_tokens: 1, completion_tokens: 1 },
        { log_type: 'tool_call', agent_id: 'a', id: 'l3', tool_name: 't', tool_arguments: {} },
        {
          log_type: 'subagent',
          agent_id: 'a',
          id: 'l4',
          children: [{ log_type: 'llm_output', agent_id: 'b', content: 'y' }],
        },
        { log_type: 'observation', agent_id: 'a', id: 'l5', content: 'z' },
      ],
    },
    {
      scenario_id: 's',
      per_agent_interaction_histories: {
        a: [
          { role: 'user', content: 'q' },
          { role: 'assistant', content: 'Action:\n{"action": "t", "action_input": {}}' },
          { role: 'tool-response', content: 'r' },
        ],
      },
      per_agent_llm_usage_stats: { a: { prompt_tokens: [1], completion_tokens: [1] } },
    },
  ],
  maslab: [{ query: 'q', gt: '1', response: 'x', token_stats: { m: { num_llm_calls: 1 } } }],
  agentboard: [
    {
      id: 0,
      task_name: 'n',
      goal: 'g',
      is_done: true,
      progress_rate: 1,
      grounding_acc: 1,
      trajectory: { 'Interaction Turn 0': { Action: 'a', Observation: 'o', 'Progress Rate': 0.5 } },
    },
  ],
  weave: [
    [
      [
        {
          id: 'c1',
          trace_id: 't',
          parent_id: 'c0',
          op_name: 'weave:///e/p/op/openai.chat.completions.create:d',
          started_at: '2026-09-10T10:00:00Z',
          ended_at: '2026-09-10T10:00:01Z',
          attributes: { weave: { kind: 'llm' } },
          inputs: { model: 'm', messages: chat },
          output: { model: 'm', choices: [{ message: chat[1], finish_reason: 'stop' }], usage: { prompt_tokens: 1 } },
          summary: {
            weave: { feedback: [{ feedback_type: 'x', weave_ref: 'weave:///e/p/call/c1', payload: { value: 1 } }] },
          },
        },
        {
          id: 'c0',
          trace_id: 't',
          op_name: 'Evaluation.predict_and_score',
          started_at: '2026-09-10T10:00:00Z',
          inputs: { example: 'weave:///e/p/object/d:d/attr/rows/id/r' },
          output: { scores: { right: true } },
        },
      ],
    ],
  ],
  xlam: [{ unique_trajectory_id: 'x', task_instruction: 's', tools: [], conversation: chat, split: 'train' }],
};

type Path = (string | number)[];

function placesIn(value: unknown, path: Path = []): Path[] {
  if (typeof value !== 'object' || value === null) return [path];
  return [
    path,
    ...Object.entries(value).flatMap(([key, member]) =>
      placesIn(member, [...path, Array.isArray(value) ? Number(key) : key]),
    ),
  ];
}

function changed(value: unknown, path: Path, to: unknown): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return to;
  const copy = (Array.isArray(value) ? [...value] : { ...(value as object) }) as Record<string | number, unknown>;
  if (rest.length === 0 && to === undefined && !Array.isArray(copy)) delete copy[key];
  else copy[key] = rest.length === 0 ? (to ?? null) : changed(copy[key], rest, to);
  return copy;
}

const strange = fc.oneof(
  fc.constantFrom<unknown>(
    undefined,
    null,
    '',
    0,
    -1,
    1.5,
    1e300,
    true,
    [],
    {},
    'x',
    [null],
    [[]],
    { a: null },
    '\u0000',
    '\ud800',
    'x'.repeat(600),
    '2026-09-10T10:00:00Z',
    '__proto__',
    'constructor',
  ),
  fc.jsonValue({ maxDepth: 2 }),
);

describe('P42: a record in which anything may be wrong', () => {
  it.each(Object.keys(RECORDS))('of %s is kept or refused by field, and never brings the import down', (name) => {
    const { convert, write } = formatNamed(name);
    const cases = RECORDS[name]!.flatMap((record) => placesIn(record).map((path) => ({ record, path })));
    fc.assert(
      fc.property(fc.constantFrom(...cases), strange, ({ record, path }, to) => {
        const value = JSON.parse(JSON.stringify(changed(record, path, to) ?? null)) as unknown;
        const { drafts, refusals } = convert({ value, canonical: canonicalJson(value), ordinal: 0 });
        for (const { expected, got, code } of refusals)
          expect([typeof expected, typeof got, typeof code]).toEqual(['string', 'string', 'string']);
        for (const draft of drafts) decodeDraft(draft);
        write?.(drafts);
        // What says nothing at all is refused, not passed over.
        if (drafts.length === 0) expect(refusals.length).toBeGreaterThan(0);
      }),
      // Each place is tried 10 times, in the longest records 5 times; 1000 runs for all would be 140 times where there are seven places.
      { numRuns: Math.min(1000, 10 * cases.length) },
    );
  });

  it.each(Object.keys(RECORDS))('of %s may hold an object that cannot be written as text, at any place', (name) => {
    const { convert } = formatNamed(name);
    const failed = RECORDS[name]!.flatMap((record) =>
      placesIn(record).filter((path) => {
        const value = changed(record, path, { toString: false });
        try {
          convert({ value, canonical: canonicalJson(value), ordinal: 0 });
          return false;
        } catch {
          return true;
        }
      }),
    );
    expect(failed.map((path) => path.join('.'))).toEqual([]);
  });

  it('is tried for every format that is read from files of others', () => {
    const elsewhere = ['troupe-events', 'tau-bench', 'who-when', 'openai-chat'];
    const tried = Object.keys(RECORDS);
    expect(tried.filter((name) => !FORMATS.some((format) => format.name === name || elsewhere.includes(name)))).toEqual(
      [],
    );
    for (const name of tried) expect(RECORDS[name]!.some((record) => convertsWhole(name, record))).toBe(true);
  });
});

const convertsWhole = (name: string, value: unknown): boolean =>
  formatNamed(name).convert({ value, canonical: canonicalJson(value), ordinal: 0 }).drafts.length > 0;
