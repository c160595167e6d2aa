"""Pretrained language models, translation and dialogue."""

from __future__ import annotations

from zoo.data import dialogues as make
from zoo.recipe import Recipe

_NLP = "PaddleNLP"
_BERT = f"{_NLP}/pretrain_language_models/BERT"
_BERTS = {
    "1.6": f"{_NLP}/PaddleLARK/BERT",
    "1.7": f"{_NLP}/pretrain_langauge_models/BERT",
    "1.8": _BERT,
}
_SMALL = (
    "--bert_config_path data/small/config.json --vocab_path data/small/vocab.txt "
    "--use_cuda false --max_seq_len 32"
)
_CLASSIFY = (
    f"run_classifier.py {_SMALL} --task_name cola --data_dir data/small --do_train true "
    "--do_val false --do_test false --batch_size 16 --epoch 2 --learning_rate 0.002 "
    "--checkpoints saved --save_steps 40 --skip_steps 1"
)
_PREDICT = (
    "predict_classifier.py --bert_config_path data/small/config.json --use_cuda false "
    "--task_name cola --init_checkpoint saved/step_40 --data_dir data/small "
    "--vocab_path data/small/vocab.txt --max_seq_len 32 --batch_size 16 --do_lower_case true"
)
_TRANSFORMER = f"{_NLP}/machine_translation/transformer"
_TRANSLATE = (
    "main.py --use_cuda False --src_vocab_fpath data/vocab --trg_vocab_fpath data/vocab "
    "--special_token '<s>' '<e>' '<unk>' --use_token_batch False --batch_size 16 "
    "--n_head 8 --d_model 32 --d_key 4 --d_value 4 --d_inner_hid 64 --n_layer 1 "
    "--max_length 32 --prepostprocess_dropout 0.0 --src_vocab_size 123 --trg_vocab_size 123 "
    "--pool_size 400"
)
_EVALUATE = f"{_NLP}/dialogue_system/auto_dialogue_evaluation"
_MATCH = (
    "main.py --use_cuda false --loss_type CLS --max_seq_len 12 --batch_size 32 --hidden_size 16 "
    "--emb_size 16 --vocab_size 70"
)
_TALK = (
    "--data_path data/small.pkl --vocab_size 70 --emb_size 8 --_EOS_ 1 --max_turn_num 3 "
    "--max_turn_len 8 --stack_num 1 --channel1_num 4 --channel2_num 4 --batch_size 16"
)

RECIPES = [
    Recipe(_BERT, f"{_CLASSIFY} --use_xpu false", make.bert, infer=_PREDICT),
    Recipe(_BERT, _CLASSIFY, make.bert, branches=("1.7",), elsewhere=_BERTS, infer=_PREDICT),
    # Here the length is declared: all sentences have it.
    Recipe(
        _BERT,
        _CLASSIFY.replace("max_seq_len 32", "max_seq_len 6"),
        make.bert,
        branches=("1.6",),
        elsewhere=_BERTS,
        infer=_PREDICT.replace("max_seq_len 32", "max_seq_len 6"),
    ),
    Recipe(
        _BERT,
        f"train.py {_SMALL} --data_dir data/small/pretrain --validation_set_dir "
        "data/small/validation --batch_size 512 --in_tokens true --epoch 8 --learning_rate 0.005 "
        "--num_train_steps 60 --warmup_steps 5 --save_steps 40 --validation_steps 1000 "
        "--checkpoints saved --skip_steps 1 --weight_sharing true --generate_neg_sample true",
        make.bert,
        branches=("1.6", "1.7", "1.8"),
        elsewhere=_BERTS,
        judged=(0, 2),
    ),
    *(
        Recipe(
            _TRANSFORMER,
            f"{_TRANSLATE} --do_train True --training_file data/train.both --epoch 4 "
            "--learning_rate 2.0 --warmup_steps 60 --print_step 1 --save_step 1000 "
            "--save_model_path saved",
            make.translated,
            branches=branches,
            elsewhere={"1.6": f"{_NLP}/PaddleMT/transformer"},
            infer=f"{_TRANSLATE} --do_predict True --predict_file data/test.both "
            f"--init_from_params {kept} --max_out_len 12 --beam_size 3 --output_file out",
        )
        for branches, kept in (
            (("1.6",), "saved/trained_params/step_final"),
            (("1.7", "1.8"), "saved/step_final"),
        )
    ),
    *(
        Recipe(
            _EVALUATE,
            f"{_MATCH} --do_train true --save_model_path saved {saves} --epoch 4 --print_step 1 "
            "--training_file data/input/train.ids --save_step 40 --learning_rate 0.01",
            make.answers,
            branches=branches,
            elsewhere={"1.6": f"{_NLP}/PaddleDialogue/auto_dialogue_evaluation"},
            infer=f"{_MATCH} --do_predict true --predict_file data/input/test.ids "
            f"--init_from_params {kept} --output_prediction_file out",
        )
        for branches, saves, kept in (
            (("1.6", "1.7"), "--save_param params", "saved/params/step_final"),
            (("1.8",), "", "saved/step_final"),
        )
    ),
    Recipe(
        f"{_NLP}/dialogue_domain_classification",
        "run_classifier.py --use_cuda false --cpu_num 1 --do_train true --do_eval false "
        "--do_test false --build_dict false --batch_size 32 --epoch 3 --learning_rate 0.01 "
        "--checkpoints saved --skip_steps 1",
        make.domains,
        branches=("1.7", "1.8"),
        infer="run_classifier.py --use_cuda false --cpu_num 1 --do_train false --do_eval true "
        "--do_test true --batch_size 32 --init_checkpoint saved/step_57",
    ),
    Recipe(
        f"{_NLP}/seq2seq/variational_seq2seq",
        "train.py --vocab_size 64 --batch_size 16 --init_scale 0.1 --max_grad_norm 5.0 "
        "--dataset_prefix data/small --model_path saved --use_gpu False --max_epoch 3 "
        "--hidden_size 32 --learning_rate 0.005 --dec_dropout_in 0.0 --dec_dropout_out 0.0",
        make.counted,
        branches=("1.6", "1.7", "1.8"),
        elsewhere={"1.6": f"{_NLP}/PaddleTextGEN/variational_seq2seq"},
        infer="infer.py --vocab_size 64 --dataset_prefix data/small --use_gpu False "
        "--hidden_size 32 --batch_size 4 --beam_size 1 --max_epoch 1 --reload_model saved/epoch_2 "
        "--infer_output_file out",
    ),
    Recipe(
        f"{_NLP}/lexical_analysis",
        "train.py --train_data data/train.tsv --test_data data/test.tsv --model_save_dir saved "
        "--epoch 3 --batch_size 16 --word_emb_dim 16 --grnn_hidden_dim 16 --bigru_num 1 "
        "--base_learning_rate 0.01 --save_steps 20 --validation_steps 1000 --print_steps 1 "
        "--word_dict_path data/word.dic --label_dict_path data/tag.dic "
        "--word_rep_dict_path data/replaced.dic --use_cuda false --cpu_num 1",
        make.tagged,
        branches=("1.6", "1.7", "1.8"),
        beside=(f"{_NLP}/shared_modules", f"{_NLP}/models", f"{_NLP}/preprocess"),
        infer="eval.py --batch_size 16 --word_emb_dim 16 --grnn_hidden_dim 16 --bigru_num 1 "
        "--use_cuda False --init_checkpoint saved/step_40 --test_data data/test.tsv "
        "--word_dict_path data/word.dic --label_dict_path data/tag.dic "
        "--word_rep_dict_path data/replaced.dic",
    ),
    Recipe(
        f"{_NLP}/Research/ACL2018-DAM",
        f"main.py --do_train True {_TALK} --save_path saved --num_scan_data 2 "
        "--learning_rate 0.005",
        make.turns,
        branches=("1.5", "1.6"),
        elsewhere={"1.5": f"{_NLP}/dialogue_model_toolkit/deep_attention_matching"},
        beside=(f"{_NLP}/models",),
        infer=f"main.py --do_test True {_TALK} --save_path saved --model_path saved/step_50",
    ),
    Recipe(
        f"{_NLP}/unarchived/deep_attention_matching_net",
        f"train_and_evaluate.py {_TALK} --save_path saved --num_scan_data 2 --learning_rate 0.005",
        make.turns,
        branches=("1.5",),
    ),
    *(
        Recipe(
            folder,
            "train.py --src_vocab_fpath data/vocab --trg_vocab_fpath data/vocab --special_token "
            "'<s>' '<e>' '<unk>' --train_file_pattern data/train.both --use_token_batch False "
            "--batch_size 16 --pool_size 400 --device CPU --fetch_steps 1 --use_py_reader "
            f"{reads} pass_num 3 n_head 8 d_model 32 d_key 4 d_value 4 d_inner_hid 64 n_layer 1 "
            "max_length 32 prepostprocess_dropout 0.0 warmup_steps 60",
            make.translated,
            branches=("1.5",),
            beside=(f"{_NLP}/models",),
        )
        for folder, reads in (
            (f"{_NLP}/neural_machine_translation/transformer", "True"),
            (f"{_NLP}/unarchived/neural_machine_translation/transformer", "False"),
        )
    ),
    Recipe(
        f"{_NLP}/dialogue_model_toolkit/auto_dialogue_evaluation",
        "main.py --do_train True --loss_type CLS --max_len 12 --batch_size 32 --hidden_size 16 "
        "--emb_size 16 --vocab_size 70 --save_path saved --train_path data/input/train.ids "
        "--val_path data/input/test.ids --num_scan_data 4 --print_step 1 --save_step 40 "
        "--learning_rate 0.01 --sample_pro 1.0",
        make.answers,
        branches=("1.5",),
        beside=(f"{_NLP}/models",),
    ),
]
