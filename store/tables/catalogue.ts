/** Which projection reads which event, and every group of columns they write: the page that lists them. */
import type { EventName } from '../../ingest/events/events.ts';
import * as calls from './calls.ts';
import * as conversation from './conversation.ts';
import * as episodes from './episodes.ts';
import * as feedback from './feedback.ts';
import { BODIES } from './long-texts.ts';
import type { Effective, Rows, Target } from './projection.ts';
import * as training from './training.ts';

type Project = (event: never) => Rows;

const PROJECTIONS: Readonly<Record<EventName, Project | null>> = {
  'task.defined': episodes.taskDefined,
  'team.defined': episodes.teamDefined,
  'episode.started': episodes.episodeStarted,
  'episode.finished': episodes.episodeFinished,
  'agent.defined': episodes.agentDefined,
  // States of members are read from the log itself; no table repeats them.
  'agent.changed': null,
  'generation.requested': calls.generationRequested,
  'generation.completed': calls.generationCompleted,
  'message.sent': conversation.messageSent,
  'tool.called': conversation.toolCalled,
  'tool.returned': conversation.toolReturned,
  'control.transferred': conversation.controlTransferred,
  'decision.made': conversation.decisionMade,
  'environment.observed': conversation.environmentObserved,
  'feedback.recorded': feedback.feedbackRecorded,
  'artifact.attached': training.artifactAttached,
  // Mapped together with the other items of its trace, by store/projecting/traces.ts.
  'span.recorded': null,
  // Amendments change what the other projections see, they have no rows of their own.
  'record.amended': null,
  'job.requested': training.jobRequested,
  'job.started': training.jobStarted,
  'job.progressed': training.jobProgressed,
  'job.finished': training.jobFinished,
  // Read from the log itself, by the key of the schedule; its jobs have rows.
  'schedule.changed': null,
  'schedule.skipped': null,
  'judge.completed': training.judgeCompleted,
  'checkpoint.saved': training.checkpointSaved,
  'policy.released': training.policyReleased,
};

/** The rows that one effective event stands for. */
export const rowsOf = (event: Effective): Rows => PROJECTIONS[event.name]?.(event as never) ?? [];

/** Every group of columns, in the order they are written: parents before what joins them. */
export const TARGETS: readonly Target[] = [
  episodes.TASKS,
  episodes.TEAMS,
  episodes.EPISODES_STARTED,
  episodes.EPISODE_TASKS,
  episodes.EPISODES_FINISHED,
  episodes.AGENTS,
  calls.AGENT_STUBS,
  BODIES,
  calls.CALLS_REQUESTED,
  calls.CALLS_COMPLETED,
  calls.STEPS,
  conversation.MESSAGES,
  conversation.TOOLS_CALLED,
  conversation.TOOLS_RETURNED,
  conversation.DECISIONS,
  conversation.OBSERVATIONS,
  feedback.FEEDBACK,
  feedback.ARTIFACTS,
  training.JOBS_REQUESTED,
  training.JOBS_STARTED,
  training.JOBS_FINISHED,
  training.JOB_METRICS,
  training.JUDGINGS,
  training.CHECKPOINTS,
  training.RELEASES,
  training.DATASETS,
  training.DATASET_ROWS,
];
