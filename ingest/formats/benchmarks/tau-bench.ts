/**
 * tau-bench results: customer-service conversations between a simulated user and one tool-calling agent, each with a final reward.
 * The numeric task_id collides between its domains, so a task is named by the hash of its content.
 */
import { canonicalJson, hashId, isRecord, sha256 } from '../../events/json.ts';
import type { ChatMessage } from '../kit/chat-message.ts';
import { conversationIn } from '../kit/conversation.ts';
import { format, isNumber, isWhole, type Reader } from '../kit/reader.ts';
import { Trace } from '../kit/trace.ts';

const NAME = 'tau-bench';
const AGENT = 'agent';

export const tauBench = format({
  name: NAME,
  summary: 'tau-bench results: a JSON array of {task_id, trial, reward, info, traj}',
  called: 'a result object',
  recognises: (row) => 'traj' in row && 'reward' in row && isRecord(row.info),
  restates: ['task.defined', 'team.defined'],
  convert(row, record) {
    const info = row.object('info', 'an object with the task');
    const error = info.any('error');
    const failed = error !== undefined;
    const native = failed ? info.object('task') : info.object('task', 'the task as an object');
    const messages = failed && !row.has('traj') ? [] : conversationIn(row, 'traj');
    const system = messages[0]?.role === 'system' ? messages[0] : null;
    const ids = row.these('task_id');
    const task = native ? taskOf(native, ids?.task_id) : null;
    const team = system ? teamOf(system) : null;
    const trace = Trace.of(NAME, record);
    const instructions = typeof system?.content === 'string' ? system.content : undefined;
    trace.add('agent.defined', [], { agent_id: AGENT, name: AGENT, system_instructions: instructions });
    trace.conversation(messages, { agentOf: () => AGENT, turns: true, reportsError });
    if (failed) {
      const seq = messages.length;
      trace.add('environment.observed', [], { kind: 'error', content: error, seq });
    }
    const reward = row.checked('reward', isNumber, 'bad_number', 'a number or null') ?? null;
    if (reward !== null) trace.feedback(['reward'], { kind: 'reward', name: 'reward', value: reward, by: 'env' }, []);
    return trace.finish(
      {
        task,
        team,
        started: {
          group_id: task && team ? hashId(NAME, task.task_id, team.team_id) : undefined,
          attempt: row.checked('trial', isWhole, 'bad_number', 'a whole number'),
          native: { format: NAME, ids },
          flags: undefined,
        },
        finished: {
          outcome: failed ? 'error' : reward === null ? 'unknown' : reward >= 1 ? 'success' : 'failure',
          seq: messages.length + 1,
          unmapped: row.rest(),
        },
      },
      row.problems,
    );
  },
});

/** The environment answers what a tool threw, and a name that is no tool, as text (sierra-research/tau-bench, tau_bench/envs/base.py). */
const reportsError = (output: string): boolean => /^(?:Error: |Unknown action )/.test(output);

const taskOf = (task: Reader, nativeId: unknown) => ({
  task_id: `${NAME}/${sha256(canonicalJson(task.native)).slice(0, 16)}`,
  source: NAME,
  query: task.text('instruction'),
  reference: task.any('actions'),
  ground_truth: task.any('outputs'),
  tags: { task_id: nativeId, user_id: task.any('user_id') },
  unmapped: task.rest(),
});

/** The team is its one agent and its instructions. */
function teamOf(system: ChatMessage) {
  const hash = hashId(NAME, AGENT, system.content ?? null);
  const agents = [{ name: AGENT, system_instructions: system.content }];
  return { team_id: `${NAME}/${hash}`, name: NAME, content_hash: hash, agents };
}
