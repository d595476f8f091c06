/**
 * What a kickoff returns (`CrewOutput.model_dump_json`): the tasks with their agents and answers, and since 1.x the conversation of each
 * task. Its `token_usage` adds up the counts of the agents, and counts a model that two of them share twice.
 */
import type { JsonObject } from '../../events/json.ts';
import { conversationIn } from '../kit/conversation.ts';
import type { Conversion, NativeRecord } from '../kit/format.ts';
import { badIdentifier } from '../kit/native.ts';
import { demand, type Reader } from '../kit/reader.ts';
import { taskOf } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';

export const isCrewOutput = (value: JsonObject): boolean => 'raw' in value && Array.isArray(value.tasks_output);

export function convertCrewOutput(format: string, output: Reader, record: NativeRecord): Conversion {
  const tasks = output.each('tasks_output', 'a list of tasks', 'the output of a task', taskIn);
  const trace = Trace.revised(format, record);
  let seq = 0;
  for (const { agent, answer, messages, decision, unmapped } of tasks) {
    trace.decided(seq++, 'assign', decision, { unmapped });
    if (messages.length === 0) trace.answer(seq++, agent, answer);
    else {
      const whole =
        messages.at(-1)!.role === 'assistant' ? messages : [...messages, { role: 'assistant', content: answer }];
      trace.conversation(whole, { agentOf: () => trace.member(agent), first: seq });
      seq += whole.length;
    }
  }
  return trace.finish(
    {
      task: taskOf(format, tasks[0]?.decision.task),
      finished: { outcome: 'unknown', seq, answer: output.text('raw'), unmapped: output.rest() },
    },
    output.problems,
  );
}

/** A task with its messages, which end before or with the answer; versions before 1.x have none. */
function taskIn(task: Reader) {
  const named = task.any('agent');
  const agent = typeof named === 'string' ? named.trim() : named;
  demand(badIdentifier(agent, task.path('agent')));
  const answer = task.text('raw', 'the answer as a text');
  task.leave('raw');
  return {
    agent: agent as string,
    answer,
    messages: task.native.messages === undefined ? [] : conversationIn(task, 'messages'),
    decision: {
      task: task.any('description'),
      expected_output: task.any('expected_output'),
      task_name: task.any('name'),
      agent,
    },
    unmapped: task.rest(),
  };
}
