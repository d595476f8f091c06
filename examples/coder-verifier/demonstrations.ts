/**
 * The teachers' work as events: for each coder task the answers of three teachers, for each verifier task one working, and an
 * execution matrix of what came out. All that is needed to sort the good from the bad stands in the matrix; nothing is sorted here.
 */
import { envelope, type RecorderDraft } from '../../ingest/recorder/recorder.ts';
import { createRandom, digest, seedOf } from '../lib/random.ts';
import {
  type Candidate,
  candidateRow,
  fillMatrix,
  type Matrix,
  namedRow,
  passesExample,
  publicColumn,
  referenceRow,
  testColumn,
  truthColumn,
} from './matrix.ts';
import { drawInput, type Program } from './operations.ts';
import { parseProgram } from './program.ts';
import { type ChatMessage, coderPrompt, verifierPrompt } from './prompts.ts';
import { SOURCE } from './source.ts';
import { sampleTask, type Task, TRAINING_MIX } from './splits.ts';
import { publicExamples, taskFacts } from './task.ts';
import { teachProgram, teachTrace } from './teachers.ts';
import { parseTrace, type Trace } from './trace.ts';

export type Lessons = {
  readonly seed: number;
  readonly coderTasks: number;
  /** Teachers that answer each coder task. */
  readonly teachers: number;
  readonly verifierTasks: number;
};

export const LESSONS: Omit<Lessons, 'seed'> = { coderTasks: 500, teachers: 3, verifierTasks: 3000 };

/** All events of the lessons, one CloudEvents object each; equal for equal lessons, ids and all. No event has a time. */
export function* demonstrations(lessons: Lessons): Generator<object> {
  const stated = new Set<string>();
  for (const [task, drafts] of episodes(lessons)) {
    if (!stated.has(task.id)) {
      stated.add(task.id);
      yield envelope(SOURCE, { name: 'task.defined', id: `task/${task.id}`, time: null, data: taskFacts(task) });
    }
    for (const draft of drafts) yield envelope(SOURCE, draft);
  }
}

function* episodes(lessons: Lessons): Generator<readonly [Task, readonly RecorderDraft[]]> {
  const { seed, coderTasks, teachers, verifierTasks } = lessons;
  for (let index = 0; index < coderTasks; index++) {
    const random = createRandom(seedOf('coder lesson', seed, index));
    const task = sampleTask('train', random, TRAINING_MIX);
    const id = episodeId('coder', seed, index);
    const answers = Array.from({ length: teachers }, (_, i): Answer => {
      const name = `teacher-${i + 1}`;
      const text = teachProgram(task, random);
      return { agent: name, role: 'coder', callId: `${id}/${name}`, prompt: coderPrompt(task.sentence), text };
    });
    const matrix = coderMatrix(
      task,
      answers.map(({ callId, text }) => ({ stepId: `${callId}/0`, meaning: parseProgram(text) })),
    );
    yield [task, episodeDrafts(id, task, 'coder', answers, matrix)];
  }
  for (let index = 0; index < verifierTasks; index++) {
    const random = createRandom(seedOf('verifier lesson', seed, index));
    const task = sampleTask('train', random, TRAINING_MIX);
    const id = episodeId('verifier', seed, index);
    const input = drawInput(random);
    const text = teachTrace(task, input, random);
    const answer: Answer = {
      agent: 'teacher-1',
      role: 'verifier',
      callId: `${id}/teacher-1`,
      prompt: verifierPrompt(task.sentence, input),
      text,
    };
    const matrix = verifierMatrix(task, { stepId: `${answer.callId}/0`, meaning: parseTrace(input, text) });
    yield [task, episodeDrafts(id, task, 'verifier', [answer], matrix)];
  }
}

type Answer = {
  readonly agent: string;
  readonly role: 'coder' | 'verifier';
  readonly callId: string;
  readonly prompt: ChatMessage[];
  readonly text: string;
};

const episodeId = (role: string, seed: number, index: number): string =>
  `lesson-${digest('lesson', role, seed, index).slice(0, 24)}`;

/** The programs against the public examples and the truth. */
const coderMatrix = (task: Task, programs: readonly Candidate<Program>[]): Matrix =>
  fillMatrix(programs.map(candidateRow), [...publicExamples(task).map(publicColumn), truthColumn(task.program)]);

/**
 * The plan inside the working, and the true program, against the written test, the public examples and the truth. The plan was
 * written by the same step as the test, so its row has a name and no step.
 */
function verifierMatrix(task: Task, test: Candidate<Trace>): Matrix {
  const examples = publicExamples(task);
  const plan = test.meaning?.plan ?? null;
  const { member, passes } = testColumn(test);
  const passesPublic = plan && { plan_passes_public: examples.every((example) => passesExample(plan, example)) };
  return fillMatrix(
    [namedRow('plan', plan), referenceRow(task.program)],
    [{ member: { ...member, ...passesPublic }, passes }, ...examples.map(publicColumn), truthColumn(task.program)],
  );
}

function episodeDrafts(
  id: string,
  task: Task,
  role: string,
  answers: readonly Answer[],
  matrix: Matrix,
): readonly RecorderDraft[] {
  const drafts: RecorderDraft[] = [
    {
      name: 'episode.started',
      id: `${id}/started`,
      time: null,
      data: {
        episode_id: id,
        task_id: task.id,
        group_id: id,
        group_size: 1,
        seq: 0,
        tags: { phase: 'teach', role, pool: task.pool },
      },
    },
  ];
  for (const [i, { agent, role: part, callId, prompt, text }] of answers.entries()) {
    const about = { episode_id: id, call_id: callId, agent_id: agent, role: part, turn: 0 };
    drafts.push(
      {
        name: 'generation.requested',
        id: `${callId}/requested`,
        time: null,
        data: { ...about, seq: 1 + 2 * i, model: 'scripted', input: prompt },
      },
      {
        name: 'generation.completed',
        id: `${callId}/completed`,
        time: null,
        data: {
          ...about,
          seq: 2 + 2 * i,
          response_model: 'scripted',
          choices: [{ index: 0, content: text, finish_reason: 'stop' }],
        },
      },
    );
  }
  const seq = 1 + 2 * answers.length;
  drafts.push(
    {
      name: 'feedback.recorded',
      id: `${id}/matrix`,
      time: null,
      data: {
        feedback_id: `${id}/matrix`,
        target: { kind: 'episode', id, episode_id: id },
        kind: 'execution',
        name: 'matrix',
        matrix,
        by: 'code',
        seq,
      },
    },
    {
      name: 'episode.finished',
      id: `${id}/finished`,
      time: null,
      data: { episode_id: id, outcome: 'unknown', stop_reason: 'demonstration', seq: seq + 1 },
    },
  );
  return drafts;
}
