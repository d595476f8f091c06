/** One small input for each method, with parameters beside the data, as `troupe method show` prints it to be pasted. */

const LINES = String.raw`
aegis_reward {"malformed":false,"gold":[["coder","FM-1.1"]],"pred":[["coder","FM-2.3"]],"coef":{"pair":1,"agent":0.5,"error":0.3,"false_positive":0.2,"dup":0.2,"quant":0.2,"bonus":0.1,"malformed":-1}}
agentracer_clip {"b0":0.3,"step":50,"total":100}
agentracer_reward {"format_ok":true,"pred_step":4,"true_step":5,"pred_agent":"a","true_agent":"a","lambda":0.5,"sigma":1}
agg_loss {"loss":[[1,2,3,0],[4,0,0,0]],"mask":[[1,1,1,0],[1,0,0,0]],"mode":"seq-mean-token-sum-norm"}
agreement_score {"answers":["7","7","9",null]}
apigen_mt_blueprint {"format_ok":true,"execution_ok":true,"policy_ok":true,"votes":[1,1,0]}
apigen_mt_trajectory {"final_state":{"order":"cancelled"},"gold_state":{"order":"cancelled"},"gold_outputs":["54.04"],"agent_outputs":["54.04","done"]}
at_grpo_advantage {"steps":[{"env":0,"turn":0,"agent":"coder","reward":1},{"env":0,"turn":0,"agent":"coder","reward":0},{"env":0,"turn":1,"agent":"coder","reward":2}]}
attribution_f1 {"cases":[{"gold":[["s","FM-1.1"]],"pred":[["s","FM-1.1"]]},{"gold":[["v","FM-3.3"]],"pred":[["v","FM-2.3"]]}]}
best_of_n {"reports":[{"programs":[{"id":"p1","valid":true,"behaviour":"f"},{"id":"p2","valid":true,"behaviour":"g"}],"tests":[{"id":"truth","valid":true,"ground_truth":true},{"id":"public","valid":true,"public":true},{"id":"t1","valid":true,"behaviour":"f","holds":true}],"pass":[[1,1,1],[0,1,0]]}]}
bon_select {"generated_pass":[[1,1,0,1],[1,0,0,1],[1,1,1,0]],"gt_pass":[[1,1],[1,0],[0,0]]}
boxed_answer {"text":"first \\boxed{1} then \\boxed{\\frac{2}{3}}"}
causal_influence {"cluster":[0,0,1,0],"delta":[0.4,0.2,-0.1,0]}
cohen_kappa {"a":[1,1,0,0,1],"b":[1,0,0,0,1]}
comam_rewards {"global":[1,0,1,0],"local":{"extract":[0.9,0.1,0.8,0.2],"retrieve":[0.1,0.9,0.2,0.8]}}
consensus_filter {"rounds":[[{"agree":false,"content":"sign error"},{"agree":true,"content":""}],[{"agree":true,"content":""},{"agree":false,"content":""}]],"max_critic_iterations":3}
correctness_filter {"pairs":[{"answer":"$ 42 ","reference":"42"},{"answer":"0.5","reference":"1/2"},{"answer":"42","reference":"-42"},{"answer":null,"reference":"7"},{"answer":"(C)","reference":"C","choices":true}]}
cosigned_rewards {"programs":[{"id":"p1","valid":true,"behaviour":"f"},{"id":"p2","valid":true,"behaviour":"g"}],"tests":[{"id":"truth","valid":true,"ground_truth":true},{"id":"public","valid":true,"public":true},{"id":"t1","valid":true,"behaviour":"f","holds":true}],"pass":[[1,1,1],[0,1,0]],"tokens":{"programs":[4,5],"tests":[0,0,8]}}
cosine_groups {"embeddings":[[1,0],[0.95,0.1],[0,1]],"threshold":0.9}
critic_agrees {"text":"Your step 2 is fine. [Agree]"}
cure_advantage {"generated_pass":[[1,1,0,1],[1,0,0,1],[1,1,1,0]],"gt_pass":[[1,1],[1,0],[0,0]]}
cure_balance {"x":[2,1,-1,-0.5]}
cure_code_reward {"gt_pass":[[1,1],[1,0],[0,0]]}
cure_length_regularize {"reward":[0.9,0.4,-0.7,-0.6],"length":[2000,4000,1000,9000],"max_len":8000,"min_len":1000}
cure_precision {"generated_pass":[[1,1],[1,0]],"gt_pass":[[1,1],[1,0]]}
cure_test_reward {"generated_pass":[[1,1,0,1],[1,0,0,1],[1,1,1,0]],"gt_pass":[[1,1],[1,0],[0,0]]}
dapo_overlong {"length":18000,"max_len":20480,"buffer":4096,"factor":1}
decisive_error {"outcome":0,"replays":[{"step":5,"agent":"coder","fixed":1},{"step":2,"agent":"web","fixed":1},{"step":0,"agent":"plan","fixed":0}]}
difficulty_band {"group":["a","a","b","b"],"outcome":[1,0,1,1]}
diversity_select {"items":[{"id":1,"category":"bio","score":3},{"id":2,"category":"bio","score":9},{"id":3,"category":"math","score":5},{"id":4,"category":"phys","score":1}],"n":3}
draft_rl_reward {"drafts":[{"text":"STEP 1: two plus three\nFINAL: 5","correct":true,"peers":[0.75,1]},{"text":"It is 6.","correct":false,"peers":[0.25]}]}
draft_rl_select {"drafts":[{"query":"q","agent":"a","text":"It is 5.","score":0.9},{"query":"q","agent":"a","text":"1. add them\nFINAL: 5","score":0.4},{"query":"q","agent":"b","text":"1. add both\nFINAL: 6","score":0.6}]}
dover_progress {"before":[1,0,0,0,0],"after":[1,1,0,1,0]}
dover_verdict {"runs":[{"success":false,"fulfilled":true,"progress":0.2},{"success":false,"fulfilled":true,"progress":0.4},{"success":false,"fulfilled":false,"progress":0}]}
dpo_loss {"beta":0.1,"pol_chosen":-10,"ref_chosen":-12,"pol_rejected":-15,"ref_rejected":-14}
drmas_advantage {"steps":[{"query":"q","traj":"t1","agent":"coder","reward":1},{"query":"q","traj":"t2","agent":"coder","reward":0},{"query":"q","traj":"t1","agent":"tester","reward":0.5},{"query":"q","traj":"t2","agent":"tester","reward":0.1}]}
drmas_scale_ratio {"steps":[{"query":"q","traj":"t1","agent":"coder","reward":1},{"query":"q","traj":"t1","agent":"tester","reward":0.5},{"query":"q","traj":"t2","agent":"coder","reward":0},{"query":"q","traj":"t2","agent":"tester","reward":0.4}]}
dylan_consensus {"answers":["a","a","a"],"n":4}
dylan_edge_weights {"ratings":[5,3,0],"n_peers":3}
dylan_importance {"rounds":[{"A":{"active":true,"agrees":false},"B":{"active":true,"agrees":false}},{"A":{"active":true,"agrees":true},"B":{"active":true,"agrees":false}}],"edges":[{"A":{"A":0.7,"B":0.5},"B":{"A":0.3,"B":0.5}}]}
essay_rewards {"gt_pass":[[1,1],[1,0],[0,0]],"generated_pass":[[1,1,0,1],[1,0,0,1],[1,1,1,0]],"lambda_ver":0.5,"lambda_len":0.001,"length":[100,200,50,400]}
failure_signs {"question":"How much is 6 times 7?","entries":[{"kind":"agent","agent":"planner","text":"Ask the calculator.","hands_over":true},{"kind":"agent","agent":"calculator","text":"I assume it is about 40."},{"kind":"agent","agent":"planner","text":"The answer is 40."}]}
failure_signs_with_reference {"question":"How much is 6 times 7?","reference":"42","entries":[{"kind":"agent","agent":"planner","text":"Ask the calculator.","hands_over":true},{"kind":"agent","agent":"calculator","text":"It is 42, I assume."},{"kind":"agent","agent":"planner","text":"The answer is 40."}]}
floored_advantage {"steps":[{"query":"q","traj":"t1","agent":"coder","reward":1},{"query":"q","traj":"t2","agent":"coder","reward":0}]}
format_filter {"messages":[{"text":"<think>x</think> ok"},{"text":"<think>y</think> so \\boxed{3}","needs_box":true},{"text":"no tags"}]}
gae {"gamma":1,"lambda":0.95,"rewards":[0,0,0,1],"values":[0.1,0.2,0.9,0.5],"mask":[1,1,0,1]}
grpo_advantage {"group":["q","q","q","q","z"],"reward":[1,0,0,1,0.7]}
ifd {"cond_logprobs":[-1,-0.5,-0.3],"uncond_logprobs":[-2,-1,-0.9]}
injected_label {"base_outcome":1,"injected_outcome":0,"agent":"coder","step":3}
inter_consistency_score {"cluster":["x","x","x","y"],"mas":["m1","m1","m2","m3"]}
inter_consistency_select {"scores":[[1,0,1],[1,1,0],[0,1,1],[0,1,0]],"clusters":{"g0":[0,1],"g1":[2,3]}}
intra_consistency_accept {"base_score":1,"refined_score":1,"executable":true}
invert_dependencies {"edges":[["plan","code"],["code","test"]]}
kl_estimators {"logp":-1,"ref_logp":-1.5}
m500_filter {"traces":[{"id":"a","interdisciplinary":true,"answer_tokens":1500,"consensus":true,"format":true,"correct":true},{"id":"b","interdisciplinary":true,"answer_tokens":1024,"consensus":true,"format":true,"correct":true}]}
magrpo_cross {"k":2,"agents":2,"rewards":[1,0,0,0]}
magrpo_returns {"gamma":0.9,"tree":{"rewards":[1,0],"children":[{"rewards":[1,0]},{"rewards":[0.5,0.5]}]}}
majority_filter {"candidates":[{"id":"x","group":"q","behaviour":"f"},{"id":"y","group":"q","behaviour":"f"},{"id":"z","group":"q","behaviour":"g"}]}
majority_of_n {"reports":[{"programs":[{"id":"p1","valid":true,"behaviour":"f"},{"id":"p2","valid":true,"behaviour":"g"}],"tests":[{"id":"truth","valid":true,"ground_truth":true},{"id":"public","valid":true,"public":true},{"id":"t1","valid":true,"behaviour":"f","holds":true}],"pass":[[1,1,1],[0,1,0]]}]}
malt_values {"refinements":[[[1,1,0],[0,0,0]],[[0,0,0],[1,0,0]]]}
mamr_step_advantage {"outcome":[1,1,-1,-1],"influence":[0.3,0.1,0.1,-0.1],"restart":[0,1,0,-1],"alpha":0.1,"beta":0.1}
marft_gae {"gamma":0.99,"lambda":0.95,"rewards":[[0,0],[0,1]],"values":[[0.2,0.3],[0.4,0.5]],"alive":[1,0],"bootstrap":0}
marft_returns {"gamma":0.99,"lambda":0.95,"rewards":[[0,0],[0,1]],"values":[[0.2,0.3],[0.4,0.5]],"alive":[1,0],"bootstrap":0}
mars2_tree_shaping {"rewards":[0.4,0.8,0.2,1],"parent":[-1,0,0,1],"gamma":0.3,"lam":0.5}
mars_turn_advantage {"gamma":1,"advantage_norm":null,"trajectories":[{"id":"a0","player":0,"turn_rewards":[0,1]},{"id":"a1","player":1,"turn_rewards":[0,-1]},{"id":"b0","player":0,"turn_rewards":[0,0]},{"id":"b1","player":1,"turn_rewards":[0,1]}]}
marsrl_rewards {"steps":[{"role":"solver","correct":true},{"role":"verifier","flags_error":true},{"role":"corrector","correct":true},{"role":"verifier","flags_error":false}]}
marti_shaping {"name":"quality_with_outcome","rewards":[1,0,1],"alpha":0.5,"beta":0.5}
masked_whiten {"values":[1,2,3,100],"mask":[1,1,1,0]}
masprm_backprop {"rollouts":[{"path":["root","a","a1"],"correct":true},{"path":["root","a","a2"],"correct":false},{"path":["root","b","b1"],"correct":true},{"path":["root","a","a1"],"correct":true}]}
masprm_path_score {"values":[0.6,0.2,-0.5]}
masprm_target {"q":0.5}
masprm_tree_keep {"root_q":-0.7}
mast_distribution {"traces":[["1.3","2.6"],["1.3","1.3","3.2"],[]]}
matpo_advantage {"main":[{"id":"m1","query":"q","reward":1},{"id":"m2","query":"q","reward":0}],"workers":[{"parent":"m1"},{"parent":"m1"},{"parent":"m2"}]}
matpo_loss_scale {"loss":0.3,"batch_size":12,"num_main":4}
metaagentx_advantage {"exec_rewards":[[1,0],[1,1],[0,0]],"executor_group":null}
metaagentx_rewards {"exec_rewards":[[1,0],[1,1]]}
milestone_kpi {"milestones":4,"per_agent":[2,1,3]}
mmoa_rewards {"f1":0.8,"subquestions":["who","when","where","why","how"],"selector":"Document0,Document3","k":10,"answer":"paris"}
mrag_select {"trajectories":[{"id":1,"query":"q","reward":0.4},{"id":2,"query":"q","reward":0.9},{"id":3,"query":"z","reward":0.2}],"threshold":0.5}
multiagent_grpo_advantage {"steps":[{"query":"q","traj":"t1","agent":"coder","reward":1},{"query":"q","traj":"t1","agent":"tester","reward":0.5},{"query":"q","traj":"t2","agent":"coder","reward":0}]}
normalise_answer {"text":" $ 42 $. "}
ordered_batches {"rows":[{"id":"a","problem":"p1","seq":2},{"id":"b","problem":"p2","seq":1},{"id":"c","problem":"p1","seq":0},{"id":"d","problem":"p1","seq":1}]}
own_success_filter {"programs":[{"id":"p1","valid":true,"behaviour":"f"},{"id":"p2","valid":true,"behaviour":"g"}],"tests":[{"id":"truth","valid":true,"ground_truth":true},{"id":"public","valid":true,"public":true},{"id":"t1","valid":true,"behaviour":"f","holds":true}],"pass":[[1,1,1],[0,1,0]]}
pass_at_1 {"reports":[{"programs":[{"id":"p1","valid":true,"behaviour":"f"},{"id":"p2","valid":true,"behaviour":"g"}],"tests":[{"id":"truth","valid":true,"ground_truth":true},{"id":"public","valid":true,"public":true},{"id":"t1","valid":true,"behaviour":"f","holds":true}],"pass":[[1,1,1],[0,1,0]]}]}
petting_group_filter {"group":["a","a","b","b","c","c","d","d"],"reward":[0,1,1,1,0,0,0,4],"mode":"std","filter_ratio":0.5}
petting_mixed_reward {"alpha":1,"team":1,"local":[0.5,0]}
petting_turn_reward {"mode":"turn_weighted","final":1,"turns":[0,1,2,3],"max_turns":4}
ppo_clip_loss {"logp":[[-1,-0.5],[-2,-0.1]],"old_logp":[[-1.2,-1],[-1,-2]],"advantages":[[1,1],[-1,-1]],"mask":[[1,1],[1,1]],"clip_low":0.2,"clip_high":0.2,"clip_c":3,"agg":"seq-mean-token-mean"}
progress_rate {"subgoals_done":[[0,0,0,0],[1,0,0,0],[0,0,0,0],[1,1,0,1]]}
public_tests_filter {"programs":[{"id":"p1","valid":true,"behaviour":"f"},{"id":"p2","valid":true,"behaviour":"g"}],"tests":[{"id":"truth","valid":true,"ground_truth":true},{"id":"public","valid":true,"public":true},{"id":"t1","valid":true,"behaviour":"f","holds":true}],"pass":[[1,1,1],[0,1,0]]}
range_normalized_variance {"rewards":[0,0,1,3]}
reject_equal_reward {"group":["p","p","q","q","r"],"reward":[1,1,0,1,0]}
rejection_rate {"reports":[{"programs":[{"id":"p1","valid":true,"behaviour":"f"},{"id":"p2","valid":true,"behaviour":"g"},{"id":"ref","valid":true,"behaviour":"f","reference":true}],"tests":[{"id":"truth","valid":true,"ground_truth":true},{"id":"public","valid":true,"public":true},{"id":"t1","valid":true,"behaviour":"f","holds":true}],"pass":[[1,1,1],[0,1,0],[1,1,1]]}]}
rema_reward {"score":1,"mask_unfinished":true,"finished":{"meta-thinking":true,"reasoning":true},"max_turns":30,"boxed":true}
restart_reward {"correct":true,"logp_without_history":-2,"logp_with_history":-3}
rloo_advantage {"group":["a","a","a"],"reward":[1,0,0.5]}
roc_format_penalty {"open_tags":3,"close_tags":3,"closed_pairs":3,"turns":4}
roc_select {"rewards":[1,0,1,1],"penalties":[0.5,0.9,0,0.25],"n":2,"min_zero":1,"min_nonzero":1}
roc_tool_penalty {"tool_responses":["42","NameError: x","Error","ok"]}
rolewise_sft_select {"trajectories":[{"success":true,"steps":[{"role":"planner","id":"a"},{"role":"coder","id":"b"}]},{"success":false,"steps":[{"role":"planner","id":"c"}]}]}
sft_sequence_mean {"logprobs":[[-0.1,-0.3],[-1,-2,-3,-2]]}
sft_token_mean {"logprobs":[[-0.1,-0.3],[-1,-2,-3,-2]]}
shapley {"agents":["p","c"],"values":{"":0,"p":0.2,"c":0.5,"c+p":1}}
sirius_library {"trajectories":[{"id":"t1","reward":1,"steps":[{"agent":"math","id":"s1"}]},{"id":"t2","reward":0,"steps":[{"agent":"math","id":"s2"}],"regenerated":{"correct":true,"steps":[{"agent":"math","id":"s2r"}]}}]}
star_agents_evolve {"p":[0.25,0.25,0.25,0.25],"pair":2,"beta":0.5,"score":0.8}
star_agents_score {"ifd_small":[0.9,0.7,0.8],"ifd_large":[0.4,0.5,0.7],"referee":["tie","generated","generated"]}
token_f1 {"pred":"new york city","gold":"york new"}
trl_advantage {"group":[0,0,0,0],"reward":[1,0,0,0],"scale":"group"}
trust_update {"trust":0.1,"upheld":[0.5,null,1]}
turn_ratio_loss {"log_ratio":[0.1,0.3,-0.2,0,0.5],"advantage":[1,1,1,1,1],"turn":[0,0,1,1,-100],"clip_low":0.2,"clip_high":0.2}
uct {"q":0.25,"parent_visits":10,"child_visits":4,"c":2}
unitymas_code_rewards {"pass_rate":[0.2,0.5,0.4],"reflections":3}
unitymas_math_rewards {"accuracy":1,"format":[0.1,0]}
unitymas_search_rewards {"plan_f1":0.1,"answer_f1":[0.2,0.6,0.5]}
unitymas_terminal_rewards {"outcome":1,"format":[0.1,0,0.1]}
value_clip_loss {"pred":[1,0.2],"old":[0.5,0.1],"returns":[1.2,0],"clip":0.2}
verifier_precision {"reports":[{"programs":[{"id":"p1","valid":true,"behaviour":"f"},{"id":"p2","valid":true,"behaviour":"g"},{"id":"ref","valid":true,"behaviour":"f","reference":true}],"tests":[{"id":"truth","valid":true,"ground_truth":true},{"id":"public","valid":true,"public":true},{"id":"t1","valid":true,"behaviour":"f","holds":true}],"pass":[[1,1,1],[0,1,0],[1,1,1]]}]}
well_formed_filter {"programs":[{"id":"p1","valid":true,"behaviour":"f"},{"id":"p2","valid":true,"behaviour":"g"}],"tests":[{"id":"truth","valid":true,"ground_truth":true},{"id":"public","valid":true,"public":true},{"id":"t1","valid":true,"behaviour":"f","holds":true}],"pass":[[1,1,1],[0,1,0]]}
who_when_accuracy {"cases":[{"pred_agent":"a","true_agent":"a","pred_step":3,"true_step":4},{"pred_agent":"b","true_agent":"b","pred_step":1,"true_step":1}]}
`;

/** JSON text of the input, by the name of the method. */
export const METHOD_EXAMPLES: Readonly<Record<string, string>> = Object.fromEntries(
  LINES.trim()
    .split('\n')
    .map((line) => [line.slice(0, line.indexOf(' ')), line.slice(line.indexOf(' ') + 1)]),
);
